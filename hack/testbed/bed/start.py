"""Starting nodes from outside: their first processes, and what they report until they are Ready."""

import json
import signal
import sys
import time

from . import cgroups, containerd, inotify, network, setup, systemd
from .places import HERE, Problem, say


def end_on_signals():
    """A command that is told to end cleans up on its way out."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def start(tasks):
    """Starts the nodes, each with its task, and waits until all are Ready."""
    inotify.warn_if_few(len(tasks))
    follow({node: launch(node, task) for node, task in tasks.items()})


def launch(node, task):
    """Starts the node's first process. A node that was lost returns with the files that it had."""
    node.log.mkdir(parents=True, exist_ok=True)
    node.progress.write_text("")
    node.write_task(task)
    cgroups.make(node.cgroup)
    if not node.joined.exists():
        # here: no link goes from one mount to another
        containerd.copy_store(task.version, node.images)
    if task.systemd:
        holder = network.hold(node)
        network.plug_in(node, holder)
        process = systemd.start(node, holder)
        systemd.wait_for_pid(node, process)
    else:
        process = start_process(node, task)
        network.plug_in(node, wait_for_pid(node, process))
    return process


def start_process(node, task):
    namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc"]
    command = [sys.executable, "-B", "-m", "bed.node", node.bed.name, str(node.number)]
    environment = {**setup.environment(task.version, node), "PYTHONPATH": str(HERE)}
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
