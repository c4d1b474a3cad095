"""From the swap of `..data` to the manifest's rename: the agent alone on a host tree, beside raw replacements.

Both run at real-time priority: other programs on the machine are not what is measured. The disk is shared with them all
the same, so every change is followed by its raw replacements, and medians are compared.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from .agent import Agent
from .bed import MANIFEST, MANIFESTS, ROOT, Problem
from .inotify import Renames
from .source import Source

PATIENCE = 10
# the agent makes at most 20 commits a minute
BRAKE = 3.1
PRIORITY = 10


def measure(program, count, directory=None):
    """Three lists of the same length, in milliseconds: swap to rename; write + fsync + rename of the same manifest; and all
    that must be on the disk before the agent may rename, written by somebody who knows it already."""
    with tempfile.TemporaryDirectory(prefix="schedpatch-bench-", dir=directory) as base, real_time():
        base = Path(base)
        host = base / "host"
        (host / "var/lib").mkdir(parents=True)
        shutil.copytree(ROOT / "examples/host/etc", host / "etc")
        source = Source(base / "source")
        renames = Renames(host / MANIFESTS.lstrip("/"))
        agent = Agent(alone, program, "--standalone", f"--host-root={host}", f"--source={source.directory}")
        try:
            agent.wait_for("Unknown")
            found = []
            for number in range(count):
                time.sleep(BRAKE)
                latency = swap(source, renames, number)
                text = (host / MANIFEST.lstrip("/")).read_bytes()
                found.append((latency, timed(replace, base / "raw", text), timed(in_order, base / "all", text, number)))
        finally:
            agent.stop()
            renames.close()
    return zip(*found)


def swap(source, renames, number):
    link = source.prepare()
    renames.drain()
    began = time.monotonic()
    source.swap(link)
    seen = renames.wait("kube-scheduler.yaml", PATIENCE)
    if seen is None:
        raise Problem(f"swap {number + 1}: the manifest was not replaced in {PATIENCE} s")
    source.tidy()
    # what the agent still does after its commit is not to be measured with the raw replacement
    time.sleep(0.05)
    return (seen - began) * 1e3


def timed(work, directory, *arguments):
    directory.mkdir(exist_ok=True)
    began = time.monotonic()
    work(directory, *arguments)
    return (time.monotonic() - began) * 1e3


def replace(directory, text):
    """The least that a durable replacement takes."""
    fd = written(directory, text)
    os.fsync(fd)
    os.close(fd)
    os.rename(directory / ".new", directory / "kube-scheduler.yaml")


def in_order(directory, text, number):
    """The journal, the revision's directory and file, the manifest: all written, then all synced (docs/develop/state.md)."""
    revision, manifests = directory / f"revision-{number}", directory / "manifests"
    manifests.mkdir(exist_ok=True)
    revision.mkdir()
    for fd in [written(directory, text[:1500]), written(revision, text[:300]), written(manifests, text)]:
        os.fsync(fd)
        os.close(fd)
    os.rename(directory / ".new", directory / "state.json")
    os.rename(revision / ".new", revision / "config.yaml")
    for changed in (directory, revision, directory):
        sync(changed)
    os.rename(manifests / ".new", manifests / "kube-scheduler.yaml")


def written(directory, text):
    fd = os.open(directory / ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, text)
    return fd


def sync(directory):
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


class real_time:  # noqa: N801, it reads as a word after `with`
    """At real-time priority, and all that is started meanwhile."""

    def __enter__(self):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))

    def __exit__(self, *_):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def alone(*command, **more):
    child = subprocess.Popen([str(word) for word in command], **more)
    return child, child.pid
