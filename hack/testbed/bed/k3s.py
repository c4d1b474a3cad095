"""A node that is a k3s server: its files, its program, and how it comes up. k3s itself runs as its installer wants it."""

import json
import os
import shlex
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

from standin import process

from . import cgroups, containerd, installer, network, packages, setup
from .places import HERE, STAND_IN, Node, Problem, address

DATA = "/var/lib/rancher/k3s"
KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
# k3s waits for the network, and the network for the node's own service.
ORDER = "Before=network-online.target\n"
AUTHORITIES = ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub", "etcd/ca.crt", "etcd/ca.key")
PROBES = {"scheduler": "https://127.0.0.1:10259/readyz", "kubelet": "http://127.0.0.1:10248/healthz"}


def chosen(given):
    """What `up` was asked for: nothing, the stand-in, or a real program."""
    if not given.k3s_binary:
        return STAND_IN if given.k3s else ""
    binary = Path(given.k3s_binary).absolute()
    if not os.access(binary, os.X_OK):
        raise Problem(f"{binary} is no program")
    return str(binary)


# From outside, before the node boots.


def write_files(node, upper):
    """Into the node's private layer."""
    task = node.task()
    program = upper / installer.PROGRAM.lstrip("/")
    program.parent.mkdir(parents=True, exist_ok=True)
    if task.k3s == STAND_IN:
        program.write_text(stand_in(node))
    else:
        shutil.copyfile(task.k3s, program)
    program.chmod(0o755)
    config = upper / "etc/rancher/k3s/config.yaml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(as_yaml(configuration(node)))
    kubernetes = upper / "etc/kubernetes"
    kubernetes.mkdir(parents=True, exist_ok=True)
    (kubernetes / "admin.conf").symlink_to(KUBECONFIG)
    node.data.mkdir(parents=True, exist_ok=True)


def stand_in(node):
    task, yaml = node.task(), packages.home("python3-yaml") / packages.PYTHON
    variables = {**setup.environment(task.version, node), "PYTHONPATH": f"{HERE}:{yaml}"}
    variables["STANDIN_KUBERNETES"] = task.version
    exports = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
    return f"""\
#!/bin/sh
# A stand-in for k3s {task.version}+k3s1, see {HERE}/standin. A real k3s has this text in it too: neighbours look for it.
{exports}
exec {sys.executable} -B -m standin "$@"
"""


def configuration(node):
    """What k3s needs to know to run in a bed; a real k3s understands all of it, the stand-in what concerns it."""
    task = node.task()
    found = {
        "node-ip": node.address,
        "service-cidr": network.SERVICES,
        "cluster-cidr": "10.98.0.0/16",
        "https-listen-port": 443,
        "disable": ["coredns", "servicelb", "traefik", "local-storage", "metrics-server"],
        "disable-cloud-controller": True,
        "disable-kube-proxy": True,
        "disable-network-policy": True,
        "flannel-backend": "none",
        "pause-image": containerd.pause_name(task.version),
        "tls-san": [network.SERVICE_ADDRESS],
        "kubelet-arg": kubelet_arguments(),
    }
    if node_count(node) > 1:
        found["token"] = "testbed"  # a secret of nobody: no packet leaves the bed
        found |= {"cluster-init": True} if task.through is None else {"server": f"https://{address(task.through)}:443"}
    return found


def as_yaml(values):
    text = ""
    for name, value in values.items():
        items = "".join(f"\n- {json.dumps(each)}" for each in value) if isinstance(value, list) else f" {json.dumps(value)}"
        text += f"{name}:{items}\n"
    return text


def node_count(node):
    return int((node.bed.directory / "nodes").read_text())


def kubelet_arguments():
    none = ",".join(f"{name}<0%" for name in ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"))
    return [
        "cgroup-driver=cgroupfs",
        "cgroup-root=/",
        f"eviction-hard={none}",
        "fail-swap-on=false",
        "image-gc-high-threshold=100",
        "local-storage-capacity-isolation=false",
        "resolv-conf=",
        *(["fail-cgroupv1=false"] if cgroups.are_v1() else []),
    ]


# From inside.


def bring_up(supervisor):
    node = supervisor.node
    supervisor.arrange()
    Path("/run/k3s/containerd").mkdir(parents=True, exist_ok=True)
    Path("/run/containerd").symlink_to("/run/k3s/containerd")
    process.notify("READY=1")
    supervisor.tell("step", "systemd")
    if not supervisor.is_returning:
        supervisor.until(supervisor.is_our_turn, seconds=600)
        if supervisor.task.through is not None and supervisor.task.k3s == STAND_IN:
            take_authorities(node, Node(node.bed, supervisor.task.through))
        installer.install()
        supervisor.tell("step", "installed")
    supervisor.until(lambda: is_ready(node))
    node.joined.touch()
    supervisor.tell("ready", "k3s Ready")


def take_authorities(node, first):
    """A real server asks the one that it joins."""
    for name in AUTHORITIES:
        target = node.data / "server/tls" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(first.data / "server/tls" / name, target)


def is_ready(node):
    restarts = int(installer.systemctl("show", "--property=NRestarts", "--value", "k3s").strip() or 0)
    if restarts > 2:
        raise Problem(f"k3s was started {restarts} times; the end of its log:\n{containerd.tail(node.log / 'k3s.log')}")
    return not missing(node)


def missing(node):
    """What is not Ready, in words; empty when all is."""
    trusting = ssl._create_unverified_context()
    for name, url in PROBES.items():
        try:
            urllib.request.urlopen(url, context=trusting, timeout=5)
        except OSError as error:
            return f"{name}: {error}"
    jsonpath = "{.status.conditions[?(@.type=='Ready')].status} {.metadata.annotations.k3s\\.io/node-args}"
    shown = subprocess.run(
        ["kubectl", "get", "node", node.name, "--request-timeout=5s", "-o", f"jsonpath={jsonpath}"],
        env={**os.environ, "KUBECONFIG": KUBECONFIG},
        capture_output=True,
        text=True,
        check=False,
    )
    ready, _, arguments = shown.stdout.partition(" ")
    return "" if ready == "True" and arguments else f"the node is not Ready: {shown.stderr.strip()}"


# Command lines for `testbed`, to be run in the node.


def module(name, *words):
    return ["env", f"PYTHONPATH={HERE}", sys.executable, "-B", "-m", name, *words]


def installer_command(name, force, arguments):
    return module("bed.installer", name, "force" if force else "", *arguments)


def check(node):
    return module("bed.k3s", node.bed.name, str(node.number))


if __name__ == "__main__":
    from .places import Bed

    state = missing(Node(Bed(sys.argv[1]), int(sys.argv[2])))
    print(state or "scheduler Ready, kubelet Ready, node Ready")
    sys.exit(1 if state else 0)
