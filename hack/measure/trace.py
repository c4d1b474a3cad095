"""System calls of a process, by strace: how many, when, and how many bytes came over sockets."""

import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

# what strace itself causes when it comes and goes
EDGE = 1.0
CALL = re.compile(r"^\d+ +(\d+\.\d+) (\w+)\((?:(\d+)<socket:)?")
RECEIVING = ("read", "readv", "recvfrom", "recvmsg")


class Call:
    """One system call that came back."""

    def __init__(self, at, name, received):
        self.at, self.name, self.received = at, name, received


def attached(pid, seconds):
    """All calls of a process that runs already, for so long; also from when to when, by the clock of the day."""
    with tempfile.NamedTemporaryFile(prefix="schedpatch-bench-") as file:
        line = ["strace", "-f", "-qq", "-ttt", "-y", "-o", file.name, "-p", str(pid)]
        tracer = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        began = time.time() + EDGE
        time.sleep(seconds + 2 * EDGE)
        if tracer.poll() is not None:
            raise RuntimeError(f"strace ended: {tracer.stderr.read()}")
        tracer.send_signal(signal.SIGINT)
        tracer.wait(timeout=30)
        ended = began + seconds
        calls = [call for call in read(file.name) if began <= call.at < ended]
    return calls, began, ended


def from_start(file):
    """The words before a command, to have all of its calls in a file."""
    return ["strace", "-f", "-qq", "-ttt", "-y", "-o", str(file)]


def read(file):
    calls, unfinished = [], {}
    for line in Path(file).read_text(errors="replace").splitlines():
        thread = line.split(maxsplit=1)[0]
        if "<detached" in line:
            continue
        if line.endswith("<unfinished ...>"):
            unfinished[thread] = line
            continue
        if " resumed>" in line:
            begun = unfinished.pop(thread, None)
            if begun is None:
                continue
            line = begun.removesuffix("<unfinished ...>") + line.partition(" resumed>")[2]
        match = CALL.match(line)
        if not match:
            continue
        at, name, socket = match.groups()
        returned = re.search(r"\) += (-?\d+)", line)
        received = int(returned.group(1)) if socket and returned and name in RECEIVING else 0
        calls.append(Call(float(at), name, max(0, received)))
    return calls
