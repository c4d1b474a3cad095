"""The agent as a process: its log as it comes, its memory, its processor time."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

from .bed import Problem


class Agent:
    """`schedpatch run`, started by `start`, which gives the child and the program's process id."""

    def __init__(self, start, program, *arguments):
        line = (program, "run", "--log-format=json", "--preflight=none", "--listen=127.0.0.1:0", *arguments)
        self.began = time.monotonic()
        self.child, self.pid = start(*line, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.lines, self.news = [], threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stderr:
            now = time.monotonic()
            try:
                said = json.loads(line)
            except ValueError:
                said = {"message": line.strip()}
            with self.news:
                self.lines.append((now, said))
                self.news.notify_all()

    def wait_for(self, phase, generation=None, since=0.0, timeout=300):
        """When its log told this phase, by the monotonic clock."""
        def told():
            for at, said in self.lines:
                if at >= since and said.get("phase") == phase and generation in (None, said.get("generation")):
                    return at
            return None

        with self.news:
            self.news.wait_for(lambda: told() or self.child.poll() is not None, timeout)
            if told():
                return told()
            last = [said for _, said in self.lines[-5:]]
        raise Problem(f"the agent did not say {phase} (generation {generation}) in {timeout} s; its last words: {last}")

    def pss(self):
        """Proportional set size and its anonymous part, in bytes."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()
        kib = {line.split(":")[0]: int(line.split()[1]) for line in rollup[1:]}
        return kib["Pss"] * 1024, kib["Pss_Anon"] * 1024

    def cpu(self):
        """Processor time of all its threads, also of those that ended, in seconds."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def is_alive(self):
        return self.child.poll() is None

    def stop(self, number=signal.SIGTERM):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass
        self.child.wait(timeout=60)
