"""The nodes of a bed that is up: one more, one fewer, and a lost one back."""

import subprocess
import sys

from . import cgroups, down, enter, kubeadm, lock, network, partition, start, up
from .places import HERE, MOST_NODES, Node, Problem, say


def add(bed):
    """Joins a node with the lowest free number; prints its name."""
    start.end_on_signals()
    record = up.read_record(bed)
    refuse_k3s(bed, record)
    with lock.held(bed):
        if lost := [node.name for node in bed.nodes() if node.pid() is None]:
            name = lost[0]
            raise Problem(f"{name} does not run, so etcd takes no new member: testbed return {name}, or remove {name}")
        helper = answering(bed.nodes())
        free = set(range(1, MOST_NODES + 1)) - {node.number for node in bed.nodes()}
        if not free:
            raise Problem(f"bed {bed.name} has {MOST_NODES} nodes, and cannot have more")
        node = Node(bed, min(free))
        share_certificates(helper, record)
        try:
            start.start({node: up.task(record, through=helper.number)})
        except BaseException:
            say(f"removing {node.name} again")
            take_out(node, helper)
            forget(node, helper)
            raise
        count_nodes(bed, record)
    print(node.name)


def remove(node, keep_node_object=False):
    """The node leaves etcd and the cluster; of the machine, nothing of it is left."""
    record = up.read_record(node.bed)
    refuse_k3s(node.bed, record)
    with lock.held(node.bed):
        others = [other for other in node.bed.nodes() if other != node]
        if not others:
            raise Problem(f"{node.name} is the only node of the bed: testbed down --name {node.bed.name}")
        helper = answering(others)
        take_out(node, helper)
        if not keep_node_object:
            forget(node, helper)
        count_nodes(node.bed, record)
    say(f"{node.title} is gone")


def refuse_k3s(bed, record):
    if record["k3s"]:
        raise Problem(f"bed {bed.name} is made of k3s servers: it keeps the nodes that it began with")


def bring_back(nodes):
    """Starts lost nodes again, with the files that they had: what machines do that were switched off and on."""
    start.end_on_signals()
    bed = nodes[0].bed
    up.read_record(bed)
    with lock.held(bed):
        lost = [node for node in nodes if node.pid() is None]
        for node in lost:
            down.kill(node)
            cgroups.remove(node.cgroup)
            network.unplug(node)
        try:
            start.start({node: node.task() for node in lost})
        except BaseException:
            for node in lost:
                down.kill(node)
            raise
    for node in nodes:
        say(f"{node.title} {'is back' if node in lost else 'runs already'}")


def answering(nodes):
    """A node whose API server and etcd answer: only with it can the cluster be changed."""
    for node in nodes:
        if node.pid() and not inside(node, "kubectl", "get", "nodes", "--request-timeout=5s").returncode:
            return node
    names = ", ".join(node.name for node in nodes)
    raise Problem(f"no API server answers with a quorum of etcd ({names}): testbed heal, or return a lost node first")


def share_certificates(helper, record):
    config = helper.directory / "upload-certs.yaml"
    config.write_text(kubeadm.first(helper, up.task(record), cgroups.are_v1(), helper.cgroup))
    expect(inside(helper, *kubeadm.share_certificates(config)))


def take_out(node, helper):
    """First out of etcd: a member that is gone but counted makes the loss of another one fatal."""
    partition.heal_node(node)
    modules = ["env", f"PYTHONPATH={HERE}", sys.executable, "-B", "-m"]
    expect(inside(helper, *modules, "bed.etcd", node.name, node.address))
    down.remove(node)
    network.unplug(node)


def forget(node, helper):
    expect(inside(helper, "kubectl", "delete", "node", node.name, "--ignore-not-found", "--timeout=60s"))
    pods = ["--all-namespaces", f"--field-selector=spec.nodeName={node.name}", "--force", "--grace-period=0"]
    expect(inside(helper, "kubectl", "delete", "pods", *pods))


def count_nodes(bed, record):
    up.write_record(bed, {**record, "nodes": len(bed.nodes())})


def inside(node, *command):
    return subprocess.run(
        enter.command(node, list(command)), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def expect(done):
    if done.returncode:
        raise Problem((done.stderr or done.stdout).strip())
