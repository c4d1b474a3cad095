"""Where things are: the cache of programs, the directory of beds, a bed and its nodes."""

import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
CHECKOUT = HERE.parent.parent
NEWEST = "v1.36.4"
MARK = "SCHEDPATCH_BED_DIRECTORY"  # in the environment of every process of a bed: how `down` finds them all
STAND_IN = "stand-in"
NODE_MARK = "SCHEDPATCH_NODE_DIRECTORY"  # the same for one node: how `remove` finds its processes
MOST_NODES = 9  # of a bed: their addresses, names and routes are known in advance


class Problem(Exception):
    """What a person must know to go on; printed without a traceback."""


def say(text):
    print(f"testbed: {text}", file=sys.stderr, flush=True)


def cache():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("SCHEDPATCH_TOOLS") or f"{home}/schedpatch/tools").absolute()


def beds_directory():
    return Path(os.environ.get("SCHEDPATCH_BEDS") or "/var/lib/schedpatch-testbed").absolute()


def versions():
    """Kubernetes versions that have a module here, newest first."""
    names = [entry.name for entry in (HERE / "kubernetes").iterdir()]
    return sorted(names, key=lambda name: [int(n) for n in name[1:].split(".")], reverse=True)


def minor(version):
    return int(version.split(".")[1])


def address(number):
    """A node's address in its bed's network."""
    return f"10.99.0.{number}"


@dataclass(frozen=True)
class Bed:
    name: str

    def __post_init__(self):
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?", self.name):
            raise Problem(f"{self.name!r} is no name for a bed: 1 to 20 of a-z, 0-9 and '-'")

    @property
    def directory(self):
        return beds_directory() / self.name

    @property
    def title(self):
        return f"bed {self.name}"

    @property
    def marks(self):
        """Variables that are in the environment of each of its processes."""
        return {MARK: str(self.directory)}

    @property
    def record(self):
        """What was asked for (version, nodes, systemd, quick_probes, k3s); written once all of the bed is Ready."""
        return self.directory / "bed.json"

    @property
    def bridge(self):
        """Holds the pid of the process whose network namespace has the bed's bridge."""
        return self.directory / "bridge"

    @property
    def cgroup(self):
        return f"schedpatch-testbed/{self.name}"

    def nodes(self):
        if not self.directory.is_dir():
            return []
        return [Node(self, int(d.name[2:])) for d in sorted(self.directory.glob(f"cp[1-{MOST_NODES}]"))]

    def node(self, name):
        for node in self.nodes():
            if node.name == name:
                return node
        there = ", ".join(n.name for n in self.nodes()) or "none: testbed up"
        raise Problem(f"bed {self.name} has no node {name!r} (there: {there})")


@dataclass(frozen=True)
class Task:
    """What a node is to become."""

    version: str
    systemd: bool
    quick_probes: bool
    k3s: str = ""  # for a k3s server: the path of its program, or STAND_IN
    through: int | None = None  # the number of the node through which it joins; None: it begins a new cluster


@dataclass(frozen=True)
class Node:
    bed: Bed
    number: int

    @property
    def name(self):
        return f"cp{self.number}"

    @property
    def title(self):
        return f"{self.name} of bed {self.bed.name}"

    @property
    def marks(self):
        return {**self.bed.marks, NODE_MARK: str(self.directory)}

    @property
    def directory(self):
        return self.bed.directory / self.name

    @property
    def log(self):
        """The node's /var/log, and beside it what its own processes say."""
        return self.directory / "log"

    @property
    def data(self):
        """What a k3s server has in /var/lib/rancher/k3s: no overlay, since containerd puts some of its own there."""
        return self.directory / "k3s"

    @property
    def images(self):
        """The root of containerd."""
        return self.data / "agent/containerd" if self.task().k3s else self.directory / "containerd"

    @property
    def progress(self):
        return self.directory / "progress"

    @property
    def joined(self):
        """There once kubeadm is done on this node: the next one may join, and this one can return when it was lost."""
        return self.directory / "joined"

    def write_task(self, task):
        (self.directory / "task.json").write_text(json.dumps(asdict(task)) + "\n")

    def task(self):
        return Task(**json.loads((self.directory / "task.json").read_text()))

    @property
    def address(self):
        return address(self.number)

    @property
    def cgroup(self):
        return f"{self.bed.cgroup}/{self.name}"

    @property
    def root(self):
        """The node's file system as seen from the machine: a link into /proc, made by the node itself."""
        return self.directory / "root"

    @property
    def machine_id(self):
        return hashlib.sha256(str(self.directory).encode()).hexdigest()[:32]

    def start(self, command, environment):
        """Its first process, apart from this command's session: it lives on, and talks into its own log."""
        with open(self.log / "node.log", "a") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            return subprocess.Popen(command, env=environment, cwd="/", start_new_session=True, **streams)

    def write_pid(self, pid):
        self.root.unlink(missing_ok=True)
        self.root.symlink_to(f"/proc/{pid}/root")
        new = self.directory / ".pid.new"
        new.write_text(f"{pid}\n")
        new.rename(self.directory / "pid")

    def pid(self):
        """The machine's number for the node's first process, or None when the node does not run."""
        try:
            pid = int((self.directory / "pid").read_text())
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if has_marks(environment, self.bed.marks) else None


def has_marks(environment, marks):
    """Whether a process with this environment, as /proc shows it, belongs to what the marks name."""
    variables = environment.split(b"\0")
    return all(f"{name}={value}".encode() in variables for name, value in marks.items())
