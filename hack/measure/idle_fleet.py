"""What the agents of a whole fleet cost when nothing happens, over a long time with the slow timer in it: memory, processor time,
system calls and requests, of each."""

import json
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import audit
from .bed import Problem, say

NAMESPACE = "schedpatch"
USER = f"system:serviceaccount:{NAMESPACE}:schedpatch"


@dataclass
class Cost:
    node: str
    pss: float = 0.0          # MB, the highest
    cpu_ms: float = 0.0       # per minute
    calls: float = 0.0        # per minute
    requests: float = 0.0     # per hour
    asked: dict = None        # how often what was asked
    names: str = ""           # the most frequent system calls


def agents(nodes):
    """The agents' processes as seen from here, by node."""
    found = {}
    for node in nodes:
        namespace = Path(f"/proc/{node.path('/').parent.joinpath('pid').read_text().strip()}/ns/pid")
        own = namespace.stat().st_ino
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and is_agent(process) and belongs(process, own):
                found[node.name] = int(process.name)
    if len(found) != len(nodes):
        raise Problem(f"agents found on {', '.join(found) or 'no node'} only")
    return found


def is_agent(process):
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0] == b"/schedpatch" and words[1:2] == [b"run"]


def belongs(process, namespace):
    """A container's PID namespace is a child of its node's; NSpid has one number for each on the way."""
    try:
        parents = process
        for _ in range(8):
            status = (parents / "status").read_text()
            parent = re.search(r"^PPid:\s+(\d+)", status, re.M)[1]
            if parent == "0":
                return False
            parents = Path("/proc") / parent
            if (parents / "ns/pid").stat().st_ino == namespace:
                return True
    except (OSError, TypeError):
        pass
    return False


def remove_probes(node):
    """The kubelet's probes cost more calls than the agent's own work: without them its own cost shows."""
    path = "/spec/template/spec/containers/0"
    patch = [{"op": "remove", "path": f"{path}/livenessProbe"}, {"op": "remove", "path": f"{path}/readinessProbe"}]
    if "readinessProbe" in node.kubectl("-n", NAMESPACE, "get", "daemonset", NAMESPACE, "-o", "json"):
        node.kubectl("-n", NAMESPACE, "patch", "daemonset", NAMESPACE, "--type=json", "-p", json.dumps(patch))
        node.run("kubectl", "-n", NAMESPACE, "rollout", "status", "daemonset", NAMESPACE, "--timeout=300s")


# it listens until its input ends
LISTEN = """
import socket, sys, threading
server = socket.create_server(("127.0.0.1", 18889))
def serve():
    while True:
        server.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
"""


def start_extender(node):
    """An extender that takes connections: one that does not is asked again and again, which is no rest."""
    return subprocess.Popen(node.line(["python3", "-c", LISTEN]), stdin=subprocess.PIPE)


def measure(nodes, minutes, probes=False):
    """Two windows of this length: one without tracers (memory, processor, requests), one with (system calls)."""
    if not probes:
        remove_probes(nodes[0])
    extenders = [start_extender(node) for node in nodes]
    try:
        return measure_at_rest(nodes, minutes)
    finally:
        for extender in extenders:
            extender.communicate()


def measure_at_rest(nodes, minutes):
    for node in nodes:
        audit.begin(node, USER)
    say("waiting for the agents to be at rest: four minutes")
    time.sleep(240)
    pids = agents(nodes)
    costs = {name: Cost(name) for name in pids}
    began, before = time.time(), {name: cpu(pid) for name, pid in pids.items()}
    while time.time() < began + minutes * 60:
        for name, pid in pids.items():
            costs[name].pss = max(costs[name].pss, pss(pid))
        time.sleep(10)
    ended = time.time()
    for node in nodes:
        cost, asked = costs[node.name], [one for one in audit.asked(node, began) if one.at < ended]
        cost.cpu_ms = (cpu(pids[node.name]) - before[node.name]) * 1e3 / minutes
        cost.requests = len(asked) * 60 / minutes
        cost.asked = {}
        for one in asked:
            what = f"{one.verb} {one.uri.partition('?')[0].rsplit('/', 2)[-2]}/{one.uri.partition('?')[0].rsplit('/', 1)[-1]}"
            cost.asked[what] = cost.asked.get(what, 0) + 1
    traced(pids, costs, minutes)
    return list(costs.values())


def traced(pids, costs, minutes):
    tracers = {name: subprocess.Popen(["strace", "-f", "-c", "-qq", "-p", str(pid)], stderr=subprocess.PIPE, text=True)
               for name, pid in pids.items()}
    time.sleep(minutes * 60)
    for name, tracer in tracers.items():
        tracer.send_signal(2)
        _, table = tracer.communicate(timeout=30)
        rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", table, re.M)
        rows = [(int(number), call) for number, call in rows if call != "total"]
        if not rows:
            raise Problem(f"strace said nothing of the agent on {name}: {table}")
        costs[name].calls = sum(number for number, _ in rows) / minutes
        costs[name].names = ", ".join(f"{call} {number}" for number, call in sorted(rows, reverse=True)[:5])


def cpu(pid):
    """Processor time of all its threads, in seconds."""
    return time.clock_gettime((~pid << 3) | 2)


def pss(pid):
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1]) * 1024 / 1e6


def details(costs):
    return "\n".join(f"{cost.node}: {json.dumps(cost.asked)}; calls: {cost.names}" for cost in costs)
