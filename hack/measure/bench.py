"""The parts of hack/bench: each measures and gives rows of the table."""

import statistics
import time

from . import changes, crowd, idle, predecessor, rights, swaps, trace
from .agent import Agent
from .bed import process_of, say
from .source import Source
from .table import Row

MB = 1e6
SETTLE = 10
# the agent's threads have gone and its spare connections are closed
QUIET = 100


def disk(program):
    return [Row("program on disk", program.stat().st_size / MB, "MB", 8, predecessor.DISK_MB)]


def swap(program, count, directory):
    say(f"swap: {count} changes of a source, each beside raw replacements")
    ours, raw, ordered = swaps.measure(program, count, directory)
    middle, least = statistics.median(ours), statistics.median(raw)
    slow = statistics.quantiles(ours, n=10)[8]
    return [
        Row("raw write + fsync + rename, p50", least, "ms", note=f"n = {count}, interleaved, real-time priority"),
        Row("raw, all that the journal's order syncs, p50", statistics.median(ordered), "ms", note="6 syncs"),
        Row("..data swap to rename, p50", middle, "ms", 2 * least + 2, predecessor.SWAP_MS, f"p90 {slow:.1f} ms"),
    ]


def cluster(node, program, work, chosen):
    """The agent with the chart's rights on a node of a bed."""
    kubeconfig = rights.account(node)
    source = Source(work / "source")
    line = ["--node-name", node.name, "--kubeconfig", kubeconfig, "--source", source.directory, f"--settle={SETTLE}s"]
    rows = []
    if "ready" in chosen.parts or "idle" in chosen.parts:
        began = time.time()
        agent = Agent(node.start, program, *line)
        try:
            agent.wait_for("Ready")
            if "ready" in chosen.parts:
                rows += ready(agent, node, source, chosen.changes)
            if "idle" in chosen.parts:
                time.sleep(QUIET)
                rows += at_rest(idle.measure(agent, node, chosen.minutes, began))
        finally:
            agent.stop()
    if "crowd" in chosen.parts:
        rows += many_pods(node, program, line, work, chosen.pods)
    return rows


def ready(agent, node, source, count):
    pod, done = changes.MirrorPod(node), []
    try:
        for number in range(count):
            done.append(changes.measure(agent, node, source, pod, SETTLE))
            say(f"ready: change {number + 1} of {count}: kubelet {done[-1].kubelet:.1f} s, agent {done[-1].added:+.2f} s")
    finally:
        pod.stop()
    kubelet = statistics.median(change.kubelet for change in done)
    middle = statistics.median(change.added for change in done)
    most = max(change.added for change in done)
    asked = statistics.median(change.swap_to_rename for change in done) * 1e3
    return [
        Row("..data swap to rename on the cluster, p50", asked, "ms", note="the API is asked first how many control planes there are"),
        Row("rename to mirror pod Ready, p50", kubelet, "s", note=f"the kubelet's own time, n = {count}"),
        Row("Ready told later than that + settle", most, "s", 1, note=f"worst; p50 {middle:.2f} s"),
    ]


def at_rest(found):
    names = ", ".join(f"{name} {count}" for name, count in found.names.most_common(5))
    asked = ", ".join(sorted({f"{one.verb} {one.uri.partition('?')[0]}" for one in found.asked}))
    return [
        Row("PSS at rest", found.pss / MB, "MB", 8.5, predecessor.PSS_MB),
        Row("  anonymous", found.anonymous / MB, "MB", None, predecessor.ANONYMOUS_MB),
        Row("system calls at rest", found.calls, "/min", 10, predecessor.CALLS_PER_MINUTE,
            f"a renewal of the watch: {found.renewal_calls}; {names}"),
        Row("processor at rest", found.cpu_ms, "ms/min", 0.5, predecessor.CPU_MS_PER_MINUTE),
        Row("API requests", found.requests, "/h", 30, note=f"seen: {asked or 'none'}"),
        Row("received from the API", found.received, "B/min"),
    ]


def many_pods(node, program, line, work, count):
    """The same start, with and without a crowd in the namespace that is watched."""
    few = start(node, program, line, work / "few")
    say(f"crowd: making {count} pods")
    crowd.fill(node, count)
    there = node.kubectl("get", "pods", "-A", "-o", "name").count("\n")
    many = start(node, program, line, work / "many")
    say(f"crowd: {there} pods; PSS {few[0]} -> {many[0]} B, received {few[1]} -> {many[1]} B")
    return [
        Row(f"PSS with {there} pods / with few", many[0] / few[0], "", 1.05, note=f"{few[0] / MB:.2f} -> {many[0] / MB:.2f} MB"),
        Row("received at start, same ratio", many[1] / few[1], "", 1.05, note=f"{few[1]} -> {many[1]} B in the first minute"),
    ]


def start(node, program, line, file):
    """Starts the agent on a node that carries its revision already, and looks at it after a minute."""
    found = []
    # not all are traced: a tracer takes memory of the traced
    for _ in range(3):
        agent = Agent(node.start, program, *line)
        try:
            agent.wait_for("Ready")
            time.sleep(20)
            found.append(agent.pss()[0])
        finally:
            agent.stop()

    def traced(*command, **more):
        child, _ = node.start(*trace.from_start(file), *command, **more)
        return child, process_of(child, str(program))

    agent = Agent(traced, program, *line)
    try:
        agent.wait_for("Ready")
        time.sleep(60)
    finally:
        agent.stop()
    return statistics.median(found), sum(call.received for call in trace.read(file))
