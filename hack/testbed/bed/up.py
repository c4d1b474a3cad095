"""`up`: from nothing to Ready, or to a report of what failed and a clean machine."""

import json
import signal
import sys
import time

from . import cgroups, containerd, down, lock, network, setup
from . import systemd as booted
from .places import HERE, Node, Problem, say


def up(bed, nodes, version, systemd=False, keep=False):
    wanted = {"version": version, "nodes": nodes, "systemd": systemd}
    setup.programs.known(version)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with lock.held(bed):
        if is_up(bed, wanted):
            return say(f"bed {bed.name} is up already: {described(wanted)}")
        if any(bed.directory.iterdir()):
            say(f"removing the remains of an earlier bed {bed.name}")
            down.remove(bed)
            bed.directory.mkdir(parents=True)
        if setup.needs(version, systemd):
            setup.setup(version, systemd)
        try:
            begin = time.monotonic()
            start(bed, nodes, version, systemd)
            bed.record.write_text(json.dumps(wanted) + "\n")
        except BaseException:
            if keep:
                say(f"the bed is kept: see testbed logs, testbed exec; then testbed down --name {bed.name}")
            else:
                down.remove(bed)
            raise
        return say(f"bed {bed.name} is up after {time.monotonic() - begin:.1f} s: {described(wanted)}")


def is_up(bed, wanted):
    if not bed.record.exists() or not all(node.pid() for node in bed.nodes()):
        return False
    have = json.loads(bed.record.read_text())
    if have != wanted:
        raise Problem(
            f"bed {bed.name} is up with {described(have)}, which is not what was asked for: "
            f"testbed down --name {bed.name} first, or choose another --name"
        )
    return True


def described(record):
    kind = ", systemd" if record["systemd"] else ""
    return f"Kubernetes {record['version']}, {record['nodes']} node{'s' if record['nodes'] > 1 else ''}{kind}"


def start(bed, nodes, version, systemd):
    (bed.directory / "version").write_text(version)
    bridge = network.start_bridge(bed)
    running = {}
    for number in range(1, nodes + 1):
        node = Node(bed, number)
        node.log.mkdir(parents=True)
        node.progress.touch()
        cgroups.make(node.cgroup)
        containerd.copy_store(version, node.directory / "containerd")  # here: no link goes from one mount to another
        if systemd:
            holder = network.hold(bed)
            network.plug_in(bridge, node, holder)
            running[node] = booted.start(node, nodes, version, holder)
            booted.wait_for_pid(node, running[node])
        else:
            running[node] = start_node(node, nodes, version)
            network.plug_in(bridge, node, wait_for_pid(node, running[node]))
    follow(running)


def start_node(node, nodes, version):
    namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc"]
    command = [sys.executable, "-B", "-m", "bed.node", node.bed.name, str(node.number), str(nodes), version]
    environment = {**setup.environment(version, node.bed), "PYTHONPATH": str(HERE)}
    return node.start(["unshare", *namespaces, "--fork", "--kill-child", *command], environment)


def wait_for_pid(node, process):
    end = time.monotonic() + 10
    while not (pid := node.pid()):
        if process.poll() is not None or time.monotonic() > end:
            raise Problem(f"{node.name} did not start:\n{containerd.tail(node.log / 'node.log')}")
        time.sleep(0.01)
    return pid


def follow(running):
    """Prints what the nodes tell, until all are Ready or one failed."""
    begin = time.monotonic()
    told = {node: 0 for node in running}
    waiting = set(running)
    while waiting:
        for node, process in running.items():
            lines = node.progress.read_text().split("\n")[:-1]  # the last may be half written
            for line in lines[told[node] :]:
                event = json.loads(line)
                if event["kind"] == "failed":
                    raise Problem(f"{node.name} failed after {event['seconds']} s: {event['text']}")
                warning = "warning: " if event["kind"] == "warning" else ""
                say(f"{node.name} +{event['seconds']:.1f} s: {warning}{event['text']}")
                if event["kind"] == "ready":
                    waiting.discard(node)
            told[node] = len(lines)
            if process.poll() is not None:
                raise Problem(f"{node.name} ended:\n{containerd.tail(node.log / 'node.log')}")
            if not lines and time.monotonic() > begin + 30:
                raise Problem(f"{node.name} says nothing after 30 s:\n{containerd.tail(node.log / 'node.log')}")
        time.sleep(0.05)
