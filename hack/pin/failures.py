"""Replicas, nodes, pods and API servers that end at the wrong moment."""

import time

from pin.bed import wait
from pin.modes import label


def two_replicas(bed):
    """Two replicas: one leads; killed, the other takes over; asked to end, it gives the lease back."""
    bed.kubectl("delete lease schedpatch-pin-test -n default --ignore-not-found")
    elect = "--name test -d --leader-elect --lease-namespace default"
    with bed.start(elect) as first:
        wait(lambda: "leads now" in first.said(), "the first leads")
        with bed.start(elect) as second:
            bed.statefulset("web", replicas=3)
            bed.kubectl("label node cp1 rf.scheduler.test.default/web-0=")
            wait(lambda: bed.pods("app=web").get("web-0") == ("Running", "cp1"), "web-0 runs")
            assert "scheduled" in first.said() and "scheduled" not in second.said()
            first.stop("KILL")
            began = time.monotonic()
            bed.kubectl("label node cp1 rf.scheduler.test.default/web-1=")
            wait(lambda: bed.pods("app=web").get("web-1") == ("Running", "cp1"), "web-1 runs", 40)
            print(f"        the leader was killed; web-1 ran after {time.monotonic() - began:.1f} s")
            with bed.start(elect) as third:
                time.sleep(3)
                second.stop("TERM")
                wait(lambda: "leads now" in third.said(), "the lease was given back", 6)


def pods_deleted_while_binding(bed):
    """Pods that are deleted and made anew all the time are bound by their UID, or not at all."""
    bed.statefulset("web", replicas=1)
    bed.kubectl("label node cp2 rf.scheduler.test.default/web-0=")
    with bed.start("--name test -d -vvv") as daemon:
        for _ in range(10):
            bed.kubectl("delete pod web-0 --force --grace-period=0 --ignore-not-found 2>/dev/null")
        wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp2")}, "web-0 runs")
        assert "WARN" not in daemon.said(), daemon.said()


def api_away_and_back(bed):
    """The API server is killed; a pod that is labelled right after its return is bound."""
    with bed.start("--name test -d --probes 127.0.0.1:18081") as daemon:
        wait(lambda: "ok" in bed.run("curl -s http://127.0.0.1:18081/readyz", check=False), "it is ready")
        server = bed.run("pgrep -x kube-apiserver").split()[0]
        bed.run(f"kill -9 {server}")
        wait(lambda: "cannot watch" in daemon.said(), "it noticed")
        assert "ok" in bed.run("curl -s http://127.0.0.1:18081/livez")
        wait(lambda: bed.kubectl("get --raw /readyz 2>&1", check=False).strip() == "ok", "the API is back", 120)
        bed.statefulset("web", replicas=1)
        bed.kubectl("label node cp2 rf.scheduler.test.default/web-0=")
        wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp2")}, "web-0 runs")
        wait(lambda: "ok" in bed.run("curl -s http://127.0.0.1:18081/readyz", check=False), "it is ready again")


def node_lost_and_back(bed):
    """A node whose kubelet is silent keeps its pod waiting, and gets it when it is back."""
    kubelet = bed.run("pgrep -x kubelet", node="cp2").split()[0]
    bed.statefulset("web", replicas=1)
    with bed.start("--name test -d"):
        bed.run(f"kill -STOP {kubelet}", node="cp2")
        try:
            wait(lambda: "True" not in ready(bed, "cp2"), "cp2 is not Ready", 90)
            bed.kubectl("label node cp2 rf.scheduler.test.default/web-0=")
            wait(lambda: "NodeNotReady" in bed.reasons("web-0"), "NodeNotReady")
            assert bed.pods("app=web") == {"web-0": ("Pending", "")}
        finally:
            bed.run(f"kill -CONT {kubelet}", node="cp2")
        wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp2")}, "web-0 runs", 90)


def next_choice_while_a_node_is_lost(bed):
    """While the first choice is lost, the pod's successor goes to the next one; later ones go home again."""
    if len(bed.nodes) < 3:
        print("        needs three nodes")
        return
    kubelet = bed.run("pgrep -x kubelet", node="cp3").split()[0]
    label(bed, "cp3", "web-0", value="1")
    label(bed, "cp2", "web-0", value="2")
    bed.statefulset("web", replicas=1)
    with bed.start("--name test -d"):
        wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp3")}, "web-0 runs on its first choice")
        bed.run(f"kill -STOP {kubelet}", node="cp3")
        try:
            wait(lambda: "True" not in ready(bed, "cp3"), "cp3 is not Ready", 90)
            bed.kubectl("delete pod web-0 --force --grace-period=0 2>/dev/null")
            wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp2")}, "web-0 runs on its second choice")
        finally:
            bed.run(f"kill -CONT {kubelet}", node="cp3")
        wait(lambda: "True" in ready(bed, "cp3"), "cp3 is Ready again", 90)
        wait(lambda: "node.kubernetes.io" not in bed.kubectl("get node cp3 -o jsonpath='{.spec.taints}'"), "cp3 has no taint")
        bed.kubectl("delete pod web-0 --force --grace-period=0 2>/dev/null")
        wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp3")}, "web-0 is home again")


def ready(bed, node):
    return bed.kubectl(f"get node {node} -o jsonpath='{{.status.conditions[?(@.type==\"Ready\")].status}}'")
