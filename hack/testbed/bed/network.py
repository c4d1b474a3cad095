"""The bed's network: a bridge in a namespace of its own, one cable to each node. The machine's network is not touched.

Every bed uses the same addresses, since no packet leaves it: nodes 10.99.0.N, pods 10.98.N.0/24, services 10.96.0.0/16.
"""

import json
import os
import subprocess
import time
from pathlib import Path

from .places import MOST_NODES, Problem, address

SERVICE_ADDRESS = "10.96.0.1"
SERVICES = "10.96.0.0/16"
GATEWAY = "10.99.0.254"  # nobody is there, but the kubelet and CNI want a default route


def pods(number):
    return f"10.98.{number}.0/24"


def start_bridge(bed):
    pid = hold(bed, "ip link set lo up && ip link add br0 type bridge && ip link set br0 up")
    bed.bridge.write_text(f"{pid}\n")


def hold(owner, preparation="true"):
    """A process that holds a new network namespace; returns its pid."""
    holder = subprocess.Popen(
        ["unshare", "--net", "sh", "-c", f"{preparation} && echo up && exec sleep infinity"],
        env={**os.environ, **owner.marks},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if holder.stdout.readline() != "up\n":
        raise Problem(f"no network for {owner.title}: {holder.stderr.read().strip()}")
    return holder.pid


def plug_in(node, pid):
    """Lays the cable from the bridge to the network namespace of the process `pid`."""
    port = f"port{node.number}"
    at_bridge(node, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    at_bridge(node, "ip", "link", "set", port, "master", "br0", "up")


def unplug(node):
    """The kernel removes the cable of an ended node some time later; its successor needs the same port now."""
    port = f"port{node.number}"
    at_bridge(node, "sh", "-c", f"[ ! -e /proc/sys/net/ipv4/conf/{port} ] || ip link delete {port}")


def at_bridge(node, *command):
    bridge = node.bed.bridge.read_text().strip()
    result = subprocess.run(["nsenter", "-t", bridge, "-n", *command], capture_output=True, text=True, check=False)
    if result.returncode:
        raise Problem(f"no network for {node.name}: {' '.join(command)}: {result.stderr.strip()}")


# What follows runs inside a node.


def ip(*arguments):
    result = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise Problem(f"ip {' '.join(arguments)}: {result.stderr.strip()}")


def configure(node, through):
    """`through` is the node that answers for the API until this one has an API server of its own, or None."""
    end = time.monotonic() + 10
    while not Path("/proc/sys/net/ipv4/conf/eth0").exists():
        if time.monotonic() > end:
            raise Problem("eth0 did not appear within 10 s")
        time.sleep(0.02)
    ip("link", "set", "lo", "up")
    ip("addr", "add", f"{node.address}/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    ip("route", "add", "default", "via", GATEWAY)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for number in range(1, MOST_NODES + 1):
        if number != node.number:
            ip("route", "add", pods(number), "via", address(number))
    if through is None:
        serve_locally()
    else:
        ip("route", "add", f"{SERVICE_ADDRESS}/32", "via", address(through))


def serve_locally():
    """The service address of the API is this node's own from now on, without kube-proxy: no node needs another's."""
    ip("addr", "replace", f"{SERVICE_ADDRESS}/32", "dev", "lo")


def serve_locally_from_now_on(through):
    serve_locally()
    ip("route", "del", f"{SERVICE_ADDRESS}/32", "via", address(through))


def write_files(node):
    names = [f"{address(number)} cp{number}" for number in range(1, MOST_NODES + 1)]
    Path("/etc/hosts").write_text("\n".join(["127.0.0.1 localhost", *names]) + "\n")
    Path("/etc/resolv.conf").unlink(missing_ok=True)  # often a link to what /run had on the machine
    Path("/etc/resolv.conf").write_text("")
    directory = Path("/etc/cni/net.d")
    directory.mkdir(parents=True, exist_ok=True)
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipam": {"type": "host-local", "subnet": pods(node.number), "routes": [{"dst": "0.0.0.0/0"}]},
    }
    conflist = {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}
    (directory / "10-pods.conflist").write_text(json.dumps(conflist))
