"""One cgroup per node, in every hierarchy: kubelets that share one would clean up each other's pods."""

import os
import signal
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


def hierarchies():
    if (MOUNT / "cgroup.controllers").exists():
        return [MOUNT]
    return [entry for entry in sorted(MOUNT.iterdir()) if (entry / "cgroup.procs").exists() and not entry.is_symlink()]


def are_v1():
    return hierarchies() != [MOUNT]


def make(path):
    for hierarchy in hierarchies():
        place = hierarchy
        for part in Path(path).parts:
            enable_controllers(place)
            child = place / part
            child.mkdir(exist_ok=True)
            for file in ("cpuset.cpus", "cpuset.mems"):  # v1: empty in a new cgroup, and nothing can run in it then
                if hierarchy.name == "cpuset" and not (child / file).read_text().strip():
                    (child / file).write_text((place / file).read_text())
            place = child


def enable_controllers(place):
    """v2: children have only the controllers that their parent passes on."""
    control = place / "cgroup.subtree_control"
    if not control.exists():
        return
    for controller in (place / "cgroup.controllers").read_text().split():
        try:
            control.write_text(f"+{controller}")
        except OSError:
            pass  # some (cpu with realtime tasks) cannot be passed on; the kubelet names those it misses


def directories(path):
    """All cgroups at and below `path`, children first."""
    found = []
    for hierarchy in hierarchies():
        if (hierarchy / path).is_dir():
            found += [Path(place) for place, _, _ in os.walk(hierarchy / path, topdown=False)]
    return found


def remove(path, seconds=5):
    """Kills what still runs in them, removes them; returns those that would not go."""
    end = time.monotonic() + seconds
    while left := directories(path):
        for place in left:
            try:
                for pid in (place / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
                place.rmdir()
            except OSError:
                pass  # a process that just ends; once more
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    return left


def remove_if_empty(path):
    for hierarchy in hierarchies():
        try:
            (hierarchy / path).rmdir()
        except OSError:
            pass  # another bed is there
