"""The node's view of the file system: the machine's own, with private layers where a node writes."""

import os
import shutil
import subprocess
from pathlib import Path

from .places import CHECKOUT, Problem, beds_directory, cache

# A private layer over each: what the machine has is seen, what the node writes stays in the bed.
PRIVATE = ("/etc", "/var", "/opt", "/usr/libexec")
# What a kubelet sets on start, for the whole machine; it finds these values in the node and leaves the machine's alone.
TUNABLES = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}


def mount(*arguments):
    # Without -n it would note some of them in the machine's /run.
    result = subprocess.run(["mount", "-n", *map(str, arguments)], capture_output=True, text=True, check=False)
    if result.returncode:
        raise Problem(f"mount {' '.join(map(str, arguments))}: {result.stderr.strip()}")


def arrange(node):
    """Runs inside the node's new mount namespace."""
    mount("-t", "proc", "proc", "/proc")
    live = keep_at_hand()
    beds = live[beds_directory()]
    own = beds / node.directory.relative_to(beds_directory())
    for place in PRIVATE:
        if Path(place).is_dir():
            layer = place.replace("/", "_")
            upper, work = own / "upper" / layer, own / "work" / layer
            upper.mkdir(parents=True, exist_ok=True)
            work.mkdir(parents=True, exist_ok=True)
            upper.chmod(0o755)
            forget_loss(work)
            try:
                mount(
                    "-t",
                    "overlay",
                    "overlay",
                    "-o",
                    f"lowerdir={place},upperdir={upper},workdir={work},volatile",
                    place,
                )
            except Problem as problem:
                raise Problem(
                    f"{problem}\n{beds_directory()} must be on a file system that can carry an overlay's "
                    "upper layer (ext4, xfs, btrfs, tmpfs): choose another with SCHEDPATCH_BEDS"
                ) from None
    for directory, held in live.items():
        directory.mkdir(parents=True, exist_ok=True)
        mount("--move", held, directory)
    subprocess.run(["umount", "-n", "/mnt"], check=True)
    finish(node)


def forget_loss(work):
    """A volatile layer that was not unmounted cannot be mounted again, since a loss of power may have damaged it. The
    machine did not lose power: a lost node that returns has all that it wrote."""
    shutil.rmtree(work / "work" / "incompat", ignore_errors=True)


def keep_at_hand():
    """Directories that must stay the machine's own below the private layers: an overlay does not follow later changes
    of what it covers, and a freshly built program must be seen. Shallow ones first."""
    mount("-t", "tmpfs", "tmpfs", "/mnt")
    live = {}
    for directory in sorted({beds_directory(), cache(), CHECKOUT}, key=lambda d: len(d.parts)):
        held = Path("/mnt", str(len(live)))
        held.mkdir()
        mount("--rbind", directory, held)
        mount("--make-rprivate", held)
        live[directory] = held
    mount("--make-private", "/mnt")
    return live


def finish(node):
    """Private places that every kind of node has."""
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    mount("-t", "tmpfs", "tmpfs", "/dev/shm")
    mount("--bind", node.log, "/var/log")
    tunables()
    os.makedirs("/run/lock", exist_ok=True)
    mount("--make-rshared", "/")  # pods with mountPropagation: Bidirectional


def tunables():
    values = Path("/run/kernel-tunables")
    values.mkdir()
    for name, value in TUNABLES.items():
        real, file = Path("/proc/sys", name), values / name.replace("/", ".")
        if real.exists():
            file.write_text(f"{value}\n")
            mount("--bind", file, real)
