"""`down`: nothing is left, whatever state the bed was in."""

import os
import shutil
import signal
import time
from pathlib import Path

from . import cgroups, lock
from .places import Problem, has_marks, say


def down(bed):
    if not bed.directory.exists() and not leftovers(bed):
        return say(f"bed {bed.name} is not up")
    begin = time.monotonic()
    with lock.held(bed):
        remove(bed)
    return say(f"bed {bed.name} is gone after {time.monotonic() - begin:.1f} s")


def remove(owner):
    """All that a bed, or one node of it, has on this machine."""
    kill(owner)
    cgroups.remove(owner.cgroup)
    cgroups.remove_if_empty(Path(owner.cgroup).parent)
    if owner.directory.exists():
        shutil.rmtree(owner.directory)
    lock.remove_if_empty(owner.directory.parent)
    if left := leftovers(owner):
        raise Problem(f"{owner.title} left behind:\n" + "\n".join(left))


def kill(owner, seconds=10):
    """Until all have ended and their parents have taken note: a namespace lives as long as its last zombie."""
    end, killed = time.monotonic() + seconds, set()
    while found := processes(owner) + [pid for pid in killed if Path(f"/proc/{pid}").exists()]:
        for pid in set(found) - killed:
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                pass
        if time.monotonic() > end:
            raise Problem(f"processes of {owner.title} do not end: {', '.join(map(command_line, found))}")
        reap()
        time.sleep(0.02)


def reap():
    """Processes that this very command started."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def processes(owner):
    """Every process of a bed or a node carries its marks, or, in a container, lives in its cgroup."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if has_marks((entry / "environ").read_bytes(), owner.marks) or is_in(owner.cgroup, entry / "cgroup"):
                    found.append(int(entry.name))
            except OSError:
                pass  # ended meanwhile
    return found


def is_in(cgroup, file):
    return any(f"/{cgroup}/" in f"{line}/" for line in file.read_text().splitlines())


def leftovers(owner):
    """What must not be left, in words; empty when all is clean."""
    left = [f"process {pid}: {command_line(pid)}" for pid in processes(owner)]
    left += [f"cgroup {place}" for place in cgroups.directories(owner.cgroup)]
    left += [
        f"mount {line.split()[4]}"
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
        if f"{owner.directory}/" in line
    ]
    if owner.directory.exists() and any(owner.directory.iterdir()):
        left.append(f"directory {owner.directory}")
    return left


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return "(ended)"
