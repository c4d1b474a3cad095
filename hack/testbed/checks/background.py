"""What the checks share: running the tool, and running `up` in the background while something goes wrong."""

import os
import subprocess
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
BED = f"selftest-{os.getpid()}"
DIRECTORY = Path(os.environ.get("SCHEDPATCH_BEDS") or "/var/lib/schedpatch-testbed")
CHECKS = {}


def check(function):
    """Its name, in words, is the name of the check; what it returns is printed as a note."""
    CHECKS[function.__name__.replace("_", " ")] = function
    return function


def expect(truth, text):
    if not truth:
        raise AssertionError(text)


def testbed(*arguments, code=0, **options):
    result = subprocess.run([HERE / "testbed", *arguments], capture_output=True, text=True, check=False, **options)
    expect(
        result.returncode == code,
        f"testbed {' '.join(arguments)}: status {result.returncode}\n{result.stdout}{result.stderr}",
    )
    return result.stdout + result.stderr


class Up:
    """An `up` in the background, with the times at which it said things."""

    def __init__(self, *arguments, name=BED, tools=None):
        environment = {**os.environ, **({"SCHEDPATCH_TOOLS": str(tools)} if tools else {})}
        self.process = subprocess.Popen(
            [HERE / "testbed", "up", "--name", name, *arguments], env=environment, stderr=subprocess.PIPE, text=True
        )
        self.lines = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.rstrip()))

    def text(self):
        return "\n".join(line for _, line in self.lines)

    def said(self, words, since, seconds):
        """Waits until one line says all `words`; returns after how many seconds."""
        while time.monotonic() < since + seconds + 5:
            for when, line in list(self.lines):
                if when >= since and all(word in line for word in words):
                    expect(when - since < seconds, f"said after {when - since:.1f} s: {line}")
                    return when - since
            if self.process.poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.05)
        raise AssertionError(f"never said {words}:\n{self.text()}")

    def end(self, number=None):
        if number:
            self.process.send_signal(number)
        self.process.wait(timeout=60)
        self.reader.join(timeout=10)
        return self.process.returncode


def process_of(program, argument=None, seconds=60):
    """The process of the bed that runs `program`, once there is one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for entry in Path("/proc").iterdir():
            try:
                name, *words = (entry / "cmdline").read_bytes().decode().split("\0")
                if os.path.basename(name) == program and (argument is None or argument in words) and is_of_bed(entry):
                    return int(entry.name)
            except (OSError, UnicodeDecodeError):
                pass
        time.sleep(0.05)
    raise AssertionError(f"no process of {program} in the bed")


def is_of_bed(entry):
    marked = f"={DIRECTORY}/{BED}\0".encode() in (entry / "environ").read_bytes() + b"\0"
    return marked or f"/schedpatch-testbed/{BED}/" in (entry / "cgroup").read_text()
