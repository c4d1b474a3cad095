"""A plain handover: the kubelet restarts the leader's scheduler because its manifest changed, while others are up."""

import re
import time

from .bed import MANIFEST, Node, Problem
from .meter import Meter, longest

ANNOTATION = "schedpatch.io/handover"
# the kubelet starts the new container after 10 to 12 s; kubeadm's probes make it Ready up to 20 s later
PATIENCE = 180
# after the restarted scheduler is Ready
SETTLE = 3
SHOWN = "jsonpath={.metadata.annotations.schedpatch\\.io/handover} {.status.containerStatuses[0].ready}"


def control_planes(bed):
    shown = Node(bed).kubectl("get", "nodes", "-l", "node-role.kubernetes.io/control-plane", "-o", "name")
    return [Node(bed, name.removeprefix("node/")) for name in shown.split()]


def leader(node):
    """The name of the node whose scheduler leads."""
    holder = node.kubectl("-n", "kube-system", "get", "lease", "kube-scheduler", "-o", "jsonpath={.spec.holderIdentity}")
    return holder.rpartition("_")[0]


def handover(nodes):
    """One of them; returns who led before and after, the pause, and how long the restarted scheduler took."""
    observer = nodes[0]
    before = leader(observer)
    led = next((node for node in nodes if node.name == before), None)
    if led is None:
        raise Problem(f"no control-plane node leads: the holder of the scheduler's lease is on {before!r}")
    with Meter(observer, SETTLE) as meter:
        time.sleep(1)
        began, word = time.monotonic(), f"at-{time.time_ns()}"
        annotate(led.path(MANIFEST), word)
        wait_until_ready(observer, led, word)
        took = time.monotonic() - began
    after = leader(observer)
    if after == before:
        raise Problem(f"{before} leads again: nobody took over while its scheduler restarted")
    return {"from": before, "to": after, "pause_s": longest(meter.report), "ready_after_s": round(took, 1), "report": meter.report}


def annotate(manifest, word):
    """By rename from a name that the kubelet ignores. The annotation stays: taking it out is a restart too."""
    text, line = manifest.read_text(), f'    {ANNOTATION}: "{word}"\n'
    text = re.sub(rf"^ +{re.escape(ANNOTATION)}:.*\n", "", text, flags=re.M)
    if re.search(r"^  annotations:\n", text, re.M):
        text = re.sub(r"^  annotations:\n", lambda found: found[0] + line, text, count=1, flags=re.M)
    else:
        text = re.sub(r"^metadata:\n", lambda found: f"{found[0]}  annotations:\n{line}", text, count=1, flags=re.M)
    new = manifest.with_name(".handover")
    new.write_text(text)
    new.chmod(manifest.stat().st_mode & 0o777)
    new.rename(manifest)


def wait_until_ready(observer, node, word):
    end = time.monotonic() + PATIENCE
    while shown(observer, node) != f"{word} true":
        if time.monotonic() > end:
            raise Problem(f"the scheduler of {node.name} is not Ready {PATIENCE} s after its manifest changed")
        time.sleep(0.5)


def shown(observer, node):
    try:
        return observer.kubectl("-n", "kube-system", "get", "pod", f"kube-scheduler-{node.name}", "-o", SHOWN)
    except Problem:
        return ""  # between the old mirror pod and the new one
