"""From a changed ConfigMap to the first manifest that is renamed, on a bed whose agents are installed by the chart; and beside it
how long the kubelet takes to show the same change in the agents' mounts."""

import http.client
import json
import re
import subprocess
import threading
import time
from dataclasses import dataclass

from .bed import MANIFESTS, ROOT, Problem
from .inotify import Renames

NAMESPACE = "schedpatch"
MAP = "schedpatch"
# the kubelet shows a changed ConfigMap within its sync period and the cache's, about two minutes at worst
KUBELET_PATIENCE = 150
PATIENCE = 300


@dataclass
class Change:
    first_rename: float       # seconds from the request to the first rename on any node
    renames: list             # the same for every node
    kubelet: float | None     # until a mount shows it
    whole: float              # until every node says Ready


class Patcher:
    """Changes the ConfigMap from within a node, so that only the API is on the way."""

    def __init__(self, node):
        line = node.line(["env", f"PYTHONPATH={ROOT / 'hack'}", "python3", "-B", "-u", "-m", "measure.latency"])
        self.child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("")

    def ask(self, text):
        """When it sent the request, by the monotonic clock, which all nodes of a bed share."""
        self.child.stdin.write(json.dumps(text) + "\n")
        self.child.stdin.flush()
        answer = json.loads(self.child.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise Problem(f"the ConfigMap cannot be changed: {answer['error']}")
        return answer["sent"]

    def stop(self):
        self.child.stdin.close()
        self.child.wait(timeout=30)


def measure(nodes, patcher, number, kubelet=False):
    """One change, to its end on every node."""
    text = re.sub(r"parallelism: \d+", f"parallelism: {number}", source(nodes[0]))
    if f"parallelism: {number}" not in text:
        raise Problem("the ConfigMap's configuration must say parallelism")
    before = digests(nodes[0])
    watched = [Renames(node.path(MANIFESTS)) for node in nodes]
    found, shown = [None] * len(nodes), []
    threads = [threading.Thread(target=wait, args=(one, found, index)) for index, one in enumerate(watched)]
    if kubelet:
        threads.append(threading.Thread(target=wait_for_mount, args=(nodes, f"parallelism: {number}", shown)))
    for thread in threads:
        thread.start()
    sent = patcher.ask(text)
    whole = wait_until_ready(nodes[0], len(nodes), before) - sent
    for thread in threads:
        thread.join()
    for one in watched:
        one.close()
    if None in found:
        raise Problem(f"not every manifest was changed: {found}")
    renames = sorted(at - sent for at in found)
    return Change(renames[0], renames, shown[0] - sent if shown else None, whole)


def wait(renames, found, index):
    found[index] = renames.wait("kube-scheduler.yaml", PATIENCE)


def wait_for_mount(nodes, words, shown):
    """The first of the agents' mounts that shows the change."""
    volumes = [list(node.path("/var/lib/kubelet/pods").glob("*/volumes/kubernetes.io~configmap/*/config.yaml")) for node in nodes]
    files = [file for of_node in volumes for file in of_node]
    end = time.monotonic() + KUBELET_PATIENCE
    while time.monotonic() < end:
        for file in files:
            try:
                if words in file.read_text():
                    shown.append(time.monotonic())
                    return
            except OSError:
                continue
        time.sleep(0.1)


def source(node):
    return node.kubectl("-n", NAMESPACE, "get", "configmap", MAP, "-o", r"jsonpath={.data.config\.yaml}")


def shown_by(node):
    path = r'jsonpath={range .items[*]}{.metadata.annotations.schedpatch\.io/phase} {.metadata.annotations.schedpatch\.io/digest}{"\n"}{end}'
    lines = node.kubectl("get", "nodes", "-o", path).splitlines()
    return [tuple(line.split()) for line in lines if line.strip()]


def digests(node):
    return {digest for _, digest in shown_by(node)}


def wait_until_ready(node, count, before):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        shown = shown_by(node)
        if len(shown) == count and all(phase == "Ready" and digest not in before for phase, digest in shown):
            return time.monotonic()
        time.sleep(0.2)
    raise Problem(f"not every node was ready in {PATIENCE} s: {shown_by(node)}")


def settle_of(node):
    """The agents' settling time in seconds."""
    path = "jsonpath={.spec.template.spec.containers[0].args}"
    found = re.search(r"--settle=(\d+)s", node.kubectl("-n", NAMESPACE, "get", "daemonset", MAP, "-o", path))
    if not found:
        raise Problem("the agents' DaemonSet names no --settle in seconds")
    return int(found[1])


def ask(connection, path, body):
    sent = time.monotonic()
    connection.request("PATCH", path, body, {"Content-Type": "application/merge-patch+json"})
    return sent, connection.getresponse()


def main():
    """In the node: a line of JSON is the new content, the answer says when the request was sent."""
    import sys

    from .crowd import connect

    connection = connect()
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{MAP}"
    for line in sys.stdin:
        text = json.loads(line)
        body = json.dumps({"data": {"config.yaml": text}} if text else {"metadata": {"labels": {"measured": "yes"}}})
        try:
            sent, answer = ask(connection, path, body)
        except (OSError, http.client.HTTPException):
            # the API server closes connections that were not used for a while
            connection = connect()
            sent, answer = ask(connection, path, body)
        said = answer.read().decode()
        print(json.dumps({"sent": sent} if answer.status == 200 else {"error": f"{answer.status} {said[:300]}"}), flush=True)


if __name__ == "__main__":
    main()
