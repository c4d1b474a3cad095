"""Faults that are planted in a copy of the sources, to see that a test finds each."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARTS = ("Cargo.toml", "Cargo.lock", "crates", "src", "tests", "benches", "examples")


def check(faults, together=False):
    """Whether each fault (name, file, what is there, what is put there instead) has exactly one place in the sources as they are,
    or with the faults before it. Compiles nothing."""
    stale, texts = 0, {}
    for name, file, there, instead in faults:
        text = texts.setdefault(file, (ROOT / file).read_text())
        if text.count(there) != 1:
            stale += 1
            print(f"{file} has {text.count(there)} places for the fault: {name}")
        elif together:
            texts[file] = text.replace(there, instead)
    return 1 if stale else 0


class Copy:
    """`with Copy() as copy:` a copy of the sources, always in the same place, so that the compiler need not begin anew."""

    def __init__(self, touched):
        self.path, self.touched = ROOT / "target/faults", touched

    def __enter__(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        for part in PARTS:
            whole = ROOT / part
            shutil.copytree(whole, self.path / part) if whole.is_dir() else shutil.copy(whole, self.path / part)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)
        # cargo tells programs of the copy and of the checkout apart by the age of their sources only: without this, it would
        # take the last faulty one for that of the checkout
        for directory in self.touched:
            for source in (ROOT / directory).rglob("*.rs"):
                source.touch()

    def replace(self, name, file, there, instead):
        """Puts a fault into a file, and gives the sound text."""
        path = self.path / file
        sound = path.read_text()
        if sound.count(there) != 1:
            sys.exit(f"{file} has {sound.count(there)} places for the fault: {name}")
        path.write_text(sound.replace(there, instead))
        return sound

    def build(self, words):
        """Compiles the tests; ends the program with the compiler's words where that fails."""
        built = subprocess.run([*words, "--no-run"], cwd=self.path, env=environment(), capture_output=True, text=True)
        if built.returncode:
            sys.exit(f"the fault does not compile:\n{built.stderr}")

    def run(self, words, **variables):
        """Names of the tests that failed."""
        pipe = subprocess.PIPE
        tests = subprocess.Popen(words, cwd=self.path, env=environment(**variables), stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        try:
            out, _ = tests.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            # the test program too, which cargo would leave behind
            os.killpg(tests.pid, signal.SIGKILL)
            tests.communicate()
            return ["(the tests do not end)"]
        return sorted(set(re.findall(r"^    ([a-z_]+(?:::[a-z_0-9]+)*)$", out, re.MULTILINE)))


def environment(**variables):
    return {**os.environ, "CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "target"), "RUST_BACKTRACE": "0", **variables}


def report(name, found):
    print(f"{'found ' if found else 'UNSEEN'}  {name}: {', '.join(found[:3])}{' …' if len(found) > 3 else ''}", flush=True)
