"""What a bed left behind, and what it changed of the machine; found without asking the tool."""

import os
import subprocess
from pathlib import Path

from .background import BED, DIRECTORY, expect


def traces(name=BED):
    found = []
    marks = (
        f"{DIRECTORY}/{name}/".encode(),
        f"/schedpatch-testbed/{name}/".encode(),
        f"={DIRECTORY}/{name}\0".encode(),
    )
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            seen = [(entry / file).read_bytes() + b"\0" for file in ("environ", "cgroup", "mountinfo", "cmdline")]
        except OSError:
            continue
        if any(mark in text for mark in marks for text in seen):
            found.append(f"process {entry.name} {seen[3][:80]}")
    found += [f"cgroup {place}" for place in Path("/sys/fs/cgroup").glob(f"**/schedpatch-testbed/{name}")]
    found += [f"file {file}" for file in DIRECTORY.glob(f"{name}*")]
    return found


def machine():
    """Of the machine: what a careless bed would change."""
    places = (
        "/etc/kubernetes",
        "/etc/cni",
        "/var/lib/kubelet",
        "/var/lib/etcd",
        "/var/lib/containerd",
        "/var/lib/cni",
        "/var/log/pods",
        "/var/log/containers",
        "/run/containerd",
        "/run/netns",
        "/usr/libexec/kubernetes",
        "/opt/cni",
    )
    tunables = [
        *Path("/proc/sys/fs").glob("protected_*"),
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/kernel/panic",
        "/proc/sys/kernel/panic_on_oops",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/net/ipv4/ip_forward",
    ]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {
        "places": {place: Path(place).exists() for place in places},
        "tunables": {str(file): Path(file).read_text() for file in tunables},
        "top": sorted(os.listdir("/")),
        "run": sorted(os.listdir("/run")),
        "systemd": sorted(os.listdir("/run/systemd")),
        "links": sorted(line.split(":")[1] for line in links.splitlines()),
        "hostname": os.uname().nodename,
    }


def namespaces():
    """All that any process is in, and those that a mount keeps alive."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/ns/*"):
        try:
            found.add(os.readlink(place))
        except OSError:
            pass
    kept = [line.split()[3] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - nsfs " in line]
    return found | set(kept)


def expect_clean(before, own_namespaces=frozenset()):
    left = traces()
    expect(not left, "left behind:\n" + "\n".join(left))
    after = machine()
    expect(after == before, f"the machine changed:\n{before}\n{after}")
    expect(not own_namespaces & namespaces(), f"namespaces are left: {own_namespaces & namespaces()}")


def bed_namespaces(name=BED, node="cp1"):
    pid = int((DIRECTORY / name / node / "pid").read_text())
    mine = {os.readlink(place) for place in Path("/proc/self/ns").iterdir()}
    return {os.readlink(place) for place in Path(f"/proc/{pid}/ns").iterdir()} - mine
