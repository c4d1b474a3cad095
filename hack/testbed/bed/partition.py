"""Cuts in a bed's network: between two nodes, or between what runs in a node and the API's in-cluster address.

A cut loses packets without a word, as a broken switch far away does: they go to a hardware address that nobody has.
The kernel keeps a cut in the node's network namespace, so that it is gone with the node.
"""

import json
import subprocess

from . import lock, network
from .places import Problem, say

NOBODY = "02:00:00:00:00:01"


def partition(node, from_nodes=()):
    """Cuts both ways between the node and the others, or only those that are named."""
    with lock.held(node.bed):
        others = list(from_nodes) or [other for other in node.bed.nodes() if other != node]
        if not others or node in others:
            raise Problem(f"{node.name} needs another node to be cut off from; --api cuts it off from its own API")
        expect_running(node)
        for other in filter(is_running, others):
            lose_packets(node, other.address)
            lose_packets(other, node.address)
    say(f"{node.title} is cut off from {', '.join(other.name for other in others)}")


def partition_api(node):
    """Cuts off all that uses the API's in-cluster address; the kubelet and the control plane use the node's own."""
    with lock.held(node.bed):
        expect_running(node)
        if not is_api_cut(node):
            ip(node, "addr", "del", f"{network.SERVICE_ADDRESS}/32", "dev", "lo")
        lose_packets(node, network.GATEWAY)  # where packets to this address go now
    say(f"{network.SERVICE_ADDRESS} cannot be reached any more in {node.title}")


def heal(nodes):
    with lock.held(nodes[0].bed):
        for node in nodes:
            heal_node(node)
    say(f"no cut is left in {', '.join(node.name for node in nodes)} of bed {nodes[0].bed.name}")


def heal_node(node):
    """Undoes every cut that has this node at one of its ends."""
    for other in filter(is_running, node.bed.nodes()):
        for address in cuts(other):
            if other == node or address == node.address:
                ip(other, "neigh", "del", address, "dev", "eth0")
    if is_running(node) and is_api_cut(node):
        ip(node, "addr", "replace", f"{network.SERVICE_ADDRESS}/32", "dev", "lo")


def lose_packets(node, address):
    ip(node, "neigh", "replace", address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")


def cuts(node):
    """The addresses that this node's packets do not reach."""
    shown = json.loads(ip(node, "-json", "neigh", "show", "dev", "eth0", "nud", "permanent") or "[]")
    return [entry["dst"] for entry in shown if entry.get("lladdr") == NOBODY]


def is_api_cut(node):
    return network.SERVICE_ADDRESS not in ip(node, "-4", "addr", "show", "dev", "lo")


def described(node):
    """In words, for `status`; empty when nothing is cut."""
    names = {other.address: other.name for other in node.bed.nodes()}
    names[network.GATEWAY] = network.SERVICE_ADDRESS
    found = [names.get(address, address) for address in cuts(node)]
    return f"cut off from {', '.join(sorted(found))}" if found else ""


def is_running(node):
    return node.pid() is not None


def expect_running(node):
    if not is_running(node):
        raise Problem(f"{node.title} does not run: testbed return --name {node.bed.name} {node.name}")


def ip(node, *arguments):
    line = ["nsenter", "-t", str(node.pid()), "--net", "ip", *arguments]
    result = subprocess.run(line, capture_output=True, text=True, check=False)
    if result.returncode:
        raise Problem(f"{node.name}: ip {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout
