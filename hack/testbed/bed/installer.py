"""What k3s' installer does on a node, first or once more: the unit is written in place, and k3s restarted if anything changed.

Runs inside the node.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

from .places import Problem

PROGRAM = "/usr/local/bin/k3s"
UNITS = Path("/etc/systemd/system")
UNIT = """\
[Unit]
Description=Lightweight Kubernetes
Documentation=https://k3s.io
Wants=network-online.target
After=network-online.target

[Install]
WantedBy=multi-user.target

[Service]
Type=notify
EnvironmentFile=-/etc/default/%N
EnvironmentFile=-/etc/sysconfig/%N
EnvironmentFile=-{environment}
KillMode=process
Delegate=yes
User=root
# Limits cost time in the kernel; control groups count better.
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart={program} \\
    server \\
{arguments}
"""


def install(name="", arguments=(), force=False):
    """Returns whether k3s was restarted."""
    service = f"k3s-{name}.service" if name else "k3s.service"
    unit, environment = UNITS / service, UNITS / f"{service}.env"
    before = digests(unit, environment)
    subprocess.run(["systemctl", "disable", service], capture_output=True, check=False)
    unit.unlink(missing_ok=True)
    environment.unlink(missing_ok=True)
    environment.touch(mode=0o600)
    unit.write_text(text(environment, arguments))
    systemctl("enable", str(unit))
    systemctl("daemon-reload")
    if digests(unit, environment) == before and not force:
        return False
    systemctl("restart", service)
    return True


def text(environment, arguments):
    """One argument per line, each in single quotes, and a backslash at the end of the last one too."""
    lines = "".join("\t'" + word.replace("'", "'\\''") + "' \\\n" for word in arguments)
    return UNIT.format(environment=environment, program=PROGRAM, arguments=lines)


def digests(*files):
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in (Path(PROGRAM), *files) if file.exists()]


def systemctl(*words):
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"systemctl {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    try:
        is_restarted = install(sys.argv[1], sys.argv[3:], bool(sys.argv[2]))
        print("restarted k3s" if is_restarted else "no change, so k3s was not restarted")
    except Problem as problem:
        sys.exit(str(problem))
