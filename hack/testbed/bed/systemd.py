"""A node that a real systemd boots, with D-Bus, in systemd-nspawn, over the machine's own file system."""

import os
import shlex
import sys
import time
from pathlib import Path

from . import cgroups, containerd, k3s, mounts, packages, setup
from .places import CHECKOUT, HERE, Problem, cache, has_marks

UNIT = "schedpatch-node.service"
ROOT = "/run/node"
# Of the machine's configuration, what would start its services in the node; all of it is hidden.
HIDDEN = ("etc/systemd/system", "etc/init.d", *(f"etc/rc{level}.d" for level in "S0123456"))
# Units that would change what is the machine's (its /tmp, its kernel), or wait for what never comes in a node.
MASKED = (
    "systemd-tmpfiles-setup.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-tmpfiles-clean.service",
    "systemd-sysctl.service",
    "systemd-binfmt.service",
    "systemd-modules-load.service",
    "proc-sys-fs-binfmt_misc.automount",
    "systemd-firstboot.service",
    "systemd-networkd-wait-online.service",
    "console-getty.service",
)
UNIT_TEXT = """\
[Unit]
Description=Kubernetes control-plane node
After=basic.target dbus.service
{order}
[Service]
Type={kind}
ExecStart={command}
{environment}
StandardOutput=append:{log}
StandardError=append:{log}
Delegate=yes
KillMode=process
TasksMax=infinity
OOMScoreAdjust=0
"""


def start(node, holder):
    """Boots the node in the network namespace that the process `holder` holds."""
    for place in ("/usr", "/etc", "/var"):
        if os.path.ismount(place):
            raise Problem(f"{place} is a file system of its own: up --systemd needs it to be part of /")
    upper, work = node.directory / "upper", node.directory / "work"
    if not upper.exists():  # a node that returns has all of this
        upper.mkdir()
        work.mkdir()
        upper.chmod(0o755)
        write_configuration(node, upper)
    mounts.forget_loss(work)
    environment = {
        **setup.environment(node.task().version, node),
        # Of /proc/sys only the network's part may be written: the rest is the machine's.
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
        "LD_LIBRARY_PATH": str(next(packages.home("libsystemd-shared").glob("usr/lib/*/systemd"))),
        "CGROUPS": " ".join(str(hierarchy / node.cgroup) for hierarchy in cgroups.hierarchies()),
    }
    launch = ["unshare", "--mount", "sh", "-euc", launcher(upper, work), "sh"]
    return node.start([*launch, *nspawn(node, holder)], environment)


def launcher(upper, work):
    """Mounts that nobody else sees; all that follows is in the node's cgroup, which the node takes for its root."""
    return (
        f"mount -n -t tmpfs tmpfs /run; mkdir {ROOT}; "  # nspawn leaves locks and directories in it
        f"mount -n -t overlay overlay -o lowerdir=/,upperdir={upper},workdir={work},volatile {ROOT}; "
        'for place in $CGROUPS; do echo 0 > "$place/cgroup.procs"; done; exec "$@"'
    )


def nspawn(node, holder):
    live = [CHECKOUT, cache(), node.bed.directory, *(Path(p) for p in ("/tmp", "/root", "/home") if Path(p).is_dir())]
    return [
        str(packages.home("systemd-container") / "usr/bin/systemd-nspawn"),
        "--quiet",
        "--boot",
        f"--directory={ROOT}",
        f"--machine={node.name}",
        f"--hostname={node.name}",
        "--register=no",
        "--keep-unit",
        "--console=pipe",
        "--resolv-conf=off",
        "--timezone=off",
        "--capability=all",
        "--link-journal=no",
        "--system-call-filter=add_key keyctl request_key bpf perf_event_open",
        f"--network-namespace-path=/proc/{holder}/ns/net",
        *(f"--setenv={name}={value}" for name, value in node.marks.items()),
        *(f"--bind={place}" for place in sorted(set(live), key=lambda place: len(place.parts))),
        *([f"--bind={node.data}:{k3s.DATA}"] if node.task().k3s else []),
        f"--bind={node.log}:/var/log",
    ]


def write_configuration(node, upper):
    for name in HIDDEN:
        directory = upper / name
        directory.mkdir(parents=True)
        os.setxattr(directory, "trusted.overlay.opaque", b"y")
    units = upper / "etc/systemd/system"
    for name in MASKED:
        (units / name).symlink_to("/dev/null")
    command = [sys.executable, "-B", "-m", "bed.node", node.bed.name, str(node.number)]
    variables = {**setup.environment(node.task().version, node), "PYTHONPATH": str(HERE)}
    (units / UNIT).write_text(
        UNIT_TEXT.format(
            command=shlex.join(command),
            kind="notify" if node.task().k3s else "simple",
            order=k3s.ORDER if node.task().k3s else "",
            log=node.log / "node.log",
            environment="\n".join(f'Environment="{name}={value}"' for name, value in variables.items()),
        )
    )
    wants = units / "multi-user.target.wants"
    wants.mkdir()
    (wants / UNIT).symlink_to(f"../{UNIT}")
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    if node.task().k3s:
        k3s.write_files(node, upper)
    (upper / "etc/hostname").write_text(f"{node.name}\n")
    (upper / "etc/fstab").write_text("")
    (upper / "etc/machine-id").write_text(f"{node.machine_id}\n")


def wait_for_pid(node, process, seconds=10):
    """systemd itself: first in its pid namespace, and marked."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and is_first(entry, node.marks, process.pid):
                node.write_pid(entry.name)
                return int(entry.name)
        time.sleep(0.02)
    raise Problem(f"{node.name} did not boot:\n{containerd.tail(node.log / 'node.log')}")


def is_first(entry, marks, nspawn_pid):
    try:
        status = dict(line.split(":\t", 1) for line in (entry / "status").read_text().splitlines() if ":\t" in line)
        numbers = status["NSpid"].split()
        return (
            len(numbers) > 1
            and numbers[-1] == "1"
            and int(status["PPid"]) == nspawn_pid
            and has_marks((entry / "environ").read_bytes(), marks)
        )
    except (OSError, KeyError, ValueError):
        return False


def arrange():
    """Inside, before anything else: what nspawn leaves out and a kubelet needs."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, options = line.split()[4:6]
        if place.startswith("/sys/fs/cgroup/") and "ro" in options.split(","):
            mounts.mount("-o", "remount,bind,rw", place)
    if not Path("/dev/kmsg").exists():
        os.mknod("/dev/kmsg", 0o600 | 0o020000, os.makedev(1, 11))
    mounts.tunables()
    mounts.mount("--make-rshared", "/")
