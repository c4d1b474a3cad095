"""Cuts in a bed's network: what is cut off is cut off, what is not goes on, and all of it heals."""

import subprocess
import time

from .background import BED, HERE, check, expect, testbed
from .traces import expect_clean, machine

LEASE = ["lease", "-n", "kube-node-lease", "cp1", "-o", "jsonpath={.spec.renewTime}"]


def ask(node, *arguments):
    """What kubectl prints, or None when the API of this node does not answer."""
    line = [HERE / "testbed", "exec", "--name", BED, node, "kubectl", "--request-timeout=3s", "get", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def until(holds, what, seconds):
    end = time.monotonic() + seconds
    while not holds():
        expect(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.5)


@check
def a_node_is_cut_off_and_heals():
    before = machine()
    testbed("up", "--name", BED, "--nodes", "3", "--quick-probes")
    try:
        from_all()
        from_one()
        from_its_api()
    finally:
        testbed("down", "--name", BED)
    expect_clean(before)


def from_all():
    testbed("partition", "--name", BED, "cp1")
    until(lambda: ask("cp1", "node", "cp1") is None, "cp1 alone has no quorum", 30)
    until(lambda: ask("cp2", "node", "cp1"), "cp2 and cp3 have one", 30)
    expect("cut off from cp2, cp3" in testbed("status", "--name", BED, code=1), "status does not show the cut")
    testbed("heal", "--name", BED, "cp1")
    until(lambda: ask("cp1", "node", "cp1"), "cp1 answers again", 60)


def from_one():
    testbed("partition", "--name", BED, "cp1", "--from", "cp3")
    reached = {pair: reaches(*pair) for pair in (("cp1", "cp2"), ("cp1", "cp3"), ("cp3", "cp1"), ("cp3", "cp2"))}
    expect([pair for pair, done in reached.items() if not done] == [("cp1", "cp3"), ("cp3", "cp1")], f"{reached}")
    testbed("heal", "--name", BED)
    expect(reaches("cp1", "cp3") and reaches("cp3", "cp1"), "the cut is there after healing")


def reaches(node, other):
    """Whether a connection from one node to the API server of the other comes about."""
    connect = ["timeout", "3", "bash", "-c", f"exec 3<>/dev/tcp/{other}/443"]
    line = [HERE / "testbed", "exec", "--name", BED, node, *connect]
    return subprocess.run(line, capture_output=True, check=False).returncode == 0


def from_its_api():
    testbed("partition", "--name", BED, "cp1", "--api")
    expect(ask("cp1", "node", "cp1") is None, "the in-cluster address answers")
    expect(ask("cp1", "node", "cp1", "--server=https://10.99.0.1:443"), "the node's own address does not answer")
    renewed = ask("cp2", *LEASE)
    until(lambda: ask("cp2", *LEASE) not in (renewed, None), "the kubelet reports on", 30)
    testbed("heal", "--name", BED, "cp1")
    expect(ask("cp1", "node", "cp1"), "the in-cluster address does not answer after healing")
