"""A node of a test bed: commands in it, programs that run in it, and its files as seen from here."""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TESTBED = ROOT / "hack/testbed/testbed"
MANIFESTS = "/etc/kubernetes/manifests"
MANIFEST = f"{MANIFESTS}/kube-scheduler.yaml"
STATE = "/var/lib/schedpatch"


class Problem(Exception):
    """What a person must know to go on; printed without a traceback."""


def say(text):
    print(text, file=sys.stderr, flush=True)


class Node:
    """The first node of a bed."""

    def __init__(self, bed, name="cp1"):
        self.bed, self.name = bed, name

    def up(self):
        if subprocess.run([TESTBED, "up", "--name", self.bed], stdout=subprocess.DEVNULL, check=False).returncode:
            raise Problem(f"testbed up --name {self.bed} failed, see above")
        return self

    def down(self):
        subprocess.run([TESTBED, "down", "--name", self.bed], stdout=subprocess.DEVNULL, check=False)

    def run(self, *command, text=None):
        """Runs a command in the node, to its end; gives what it printed."""
        ran = subprocess.run(self.line(command), input=text, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise Problem(f"{' '.join(map(str, command))} failed in {self.name}: {(ran.stderr or ran.stdout).strip()}")
        return ran.stdout

    def kubectl(self, *arguments, text=None):
        return self.run("kubectl", "--request-timeout=60s", *arguments, text=text)

    def start(self, *command, **more):
        """Starts a command in the node, and gives it with its process id out here."""
        child = subprocess.Popen(self.line(command), **more)
        return child, process_of(child, str(command[0]))

    def line(self, command):
        return [str(TESTBED), "exec", "--name", self.bed, self.name, *map(str, command)]

    def path(self, path):
        """A file of the node, as seen from here."""
        beds = Path(os.environ.get("SCHEDPATCH_BEDS") or "/var/lib/schedpatch-testbed")
        return beds / self.bed / self.name / "root" / path.lstrip("/")


def process_of(child, program):
    """The process that became `program` below a child of ours: who enters a node's namespaces is its parent."""
    name = os.path.basename(program)
    for _ in range(500):
        for pid in below(child.pid):
            try:
                if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == name:
                    return pid
            except OSError:
                continue
        if child.poll() is not None:
            break
        time.sleep(0.02)
    raise Problem(f"{program} did not start in the node")


def below(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(deeper for child in children for deeper in below(int(child)))]
