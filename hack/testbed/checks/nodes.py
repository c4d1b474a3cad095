"""Nodes join a bed that is up, leave it without a trace, are lost and return."""

import os
import signal

from bed.watch import CONTROL_PLANE

from .background import BED, DIRECTORY, check, expect, testbed
from .traces import bed_namespaces, expect_clean, machine, namespaces, traces


def shown(node, kind, template):
    words = ["kubectl", "get", kind, "-A", "-o", f"jsonpath={{range .items[*]}}{template} {{end}}"]
    return testbed("exec", "--name", BED, node, *words).split()


def names(node, kind):
    return sorted(shown(node, kind, "{.metadata.name}"))


def add(expected):
    added = testbed("add", "--name", BED).split()[0]
    expect(added == expected, f"{added} was added, not {expected}")


def lose(node):
    os.kill(int((DIRECTORY / BED / node / "pid").read_text()), signal.SIGKILL)


def expect_quick_probes():
    """Of the first node and of those that joined."""
    delays = shown("cp1", "pods", "{.spec.containers[0].startupProbe['initialDelaySeconds','periodSeconds']}")
    expect(delays == ["1"] * 12, f"startup probes begin at once and ask every second: {delays}")


@check
def nodes_are_added_removed_lost_and_returned():
    before = machine()
    testbed("up", "--name", BED, "--quick-probes")
    try:
        add("cp2")
        add("cp3")
        expect_quick_probes()
        removed()
        add("cp1")
        returned()
        lose("cp3")
        testbed("remove", "--name", BED, "cp3", "--keep-node-object")
        expect(names("cp1", "nodes") == ["cp1", "cp2", "cp3"], "the Node of cp3 was not kept")
        testbed("status", "--name", BED)
    finally:
        testbed("down", "--name", BED)
    expect_clean(before)


def removed():
    """cp1 goes, the one that began the cluster."""
    own = bed_namespaces(node="cp1")
    expect(traces(f"{BED}/cp1"), "this check cannot see a node that runs")
    testbed("remove", "--name", BED, "cp1")
    left = traces(f"{BED}/cp1")
    expect(not left, "cp1 left behind:\n" + "\n".join(left))
    expect(not own & namespaces(), "namespaces of cp1 are left")
    expect(names("cp3", "nodes") == ["cp2", "cp3"], "the Node of cp1 is left")
    pods = sorted(f"{component}-{node}" for component in CONTROL_PLANE for node in ("cp2", "cp3"))
    expect(names("cp3", "pods") == pods, f"other pods than expected: {names('cp3', 'pods')}")


def returned():
    """cp2 is lost and returns with its files."""
    file = DIRECTORY / BED / "cp2" / "root/var/lib/written-before-the-loss"
    file.write_text("here")
    lose("cp2")
    testbed("status", "--name", BED, code=1)
    expect("testbed return cp2" in testbed("add", "--name", BED, code=1), "a node joins while another is lost")
    testbed("return", "--name", BED, "cp2")
    expect(file.read_text() == "here", "the node that returned has not the file that it had")
    expect("runs already" in testbed("return", "--name", BED, "cp2"), "return is not idempotent")
    testbed("status", "--name", BED)
