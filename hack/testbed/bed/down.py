"""`down`: nothing is left, whatever state the bed was in."""

import os
import shutil
import signal
import time
from pathlib import Path

from . import cgroups, lock
from .places import MARK, Problem, say


def down(bed):
    if not bed.directory.exists() and not leftovers(bed):
        return say(f"bed {bed.name} is not up")
    begin = time.monotonic()
    with lock.held(bed):
        remove(bed)
    return say(f"bed {bed.name} is gone after {time.monotonic() - begin:.1f} s")


def remove(bed):
    kill(bed)
    cgroups.remove(bed.cgroup)
    cgroups.remove_if_empty(Path(bed.cgroup).parent)
    if bed.directory.exists():
        shutil.rmtree(bed.directory)
    lock.remove_if_empty(bed.directory.parent)
    if left := leftovers(bed):
        raise Problem(f"bed {bed.name} left behind:\n" + "\n".join(left))


def kill(bed, seconds=10):
    """Until all have ended and their parents have taken note: a namespace lives as long as its last zombie."""
    end, killed = time.monotonic() + seconds, set()
    while found := processes(bed) + [pid for pid in killed if Path(f"/proc/{pid}").exists()]:
        for pid in set(found) - killed:
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                pass
        if time.monotonic() > end:
            raise Problem(f"processes of bed {bed.name} do not end: {', '.join(map(command_line, found))}")
        reap()
        time.sleep(0.02)


def reap():
    """Processes that this very command started."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def processes(bed):
    """Every process of the bed carries its mark, or, in a container, lives in its cgroup."""
    mark, place = f"{MARK}={bed.directory}".encode(), f"/{bed.cgroup}/"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0") or place in (entry / "cgroup").read_text():
                    found.append(int(entry.name))
            except OSError:
                pass  # ended meanwhile
    return found


def leftovers(bed):
    """What `down` must not leave, in words; empty when all is clean."""
    left = [f"process {pid}: {command_line(pid)}" for pid in processes(bed)]
    left += [f"cgroup {place}" for place in cgroups.directories(bed.cgroup)]
    left += [
        f"mount {line.split()[4]}"
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if f"{bed.directory}/" in line
    ]
    if bed.directory.exists() and any(bed.directory.iterdir()):
        left.append(f"directory {bed.directory}")
    return left


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "(ended)"
