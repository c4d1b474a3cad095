"""For how long nothing is scheduled while the chart is installed, a configuration changes, one is refused, one fails, and the chart is
uninstalled; beside what plain handovers and an idle cluster cost in the same run."""

import subprocess
import time

from . import handover, latency
from .bed import ROOT, TESTBED, Problem, say
from .meter import Meter, longest
from .table import Row

SPACE = latency.NAMESPACE
# "a pause" below this is the measurement's own grain: a pod every 200 ms
GRAIN = 0.5
# only the scheduler knows what its plugins take
GOOD = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: {number}
"""
BAD = GOOD + """profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: Nonsense}}}}
"""


class Release:
    def __init__(self, nodes):
        self.nodes, self.first, self.number = nodes, nodes[0], 100

    def load(self, bed):
        archives = sorted((ROOT / "target/image").glob("schedpatch-[0-9]*.[0-9].tar"))
        if not archives:
            subprocess.run([ROOT / "hack/image"], check=True)
            archives = sorted((ROOT / "target/image").glob("schedpatch-[0-9]*.[0-9].tar"))
        subprocess.run([TESTBED, "load", "--name", bed, archives[-1]], check=True, capture_output=True)

    def install(self, preflight):
        self.number += 1
        self.first.run("sh", "-c", "mkdir -p /tmp/pauses && cat > /tmp/pauses/config.yaml", text=GOOD.format(number=self.number))
        self.first.run("helm", "upgrade", "--install", "schedpatch", ROOT / "charts/schedpatch", "-n", SPACE, "--create-namespace",
                       "--set-file", "config.config\\.yaml=/tmp/pauses/config.yaml", "--set", f"preflight={preflight},verifyTimeout=90s")
        return self.until(lambda phase, _: phase == "Ready", "Ready")

    def change(self, text=GOOD):
        self.number += 1
        self.patcher.ask(text.format(number=self.number))
        return time.monotonic()

    def until(self, fits, what, patience=300):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            shown = [(line + ("", ""))[:2] for line in latency.shown_by(self.first)]
            if len(shown) == len(self.nodes) and all(fits(*one) for one in shown):
                return time.monotonic()
            time.sleep(0.2)
        raise Problem(f"not every node is {what} after {patience} s: {latency.shown_by(self.first)}")

    def until_new(self, before):
        return self.until(lambda phase, digest: phase == "Ready" and digest not in before, "Ready with the change")

    def until_some(self, phase, patience=120):
        """When the first node says so."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if any(one[0] == phase for one in latency.shown_by(self.first) if one):
                return time.monotonic()
            time.sleep(0.1)
        raise Problem(f"no node is {phase} after {patience} s: {latency.shown_by(self.first)}")

    def containers(self):
        path = 'jsonpath={range .items[*]}{.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}{"\\n"}{end}'
        return sorted(self.first.kubectl("-n", "kube-system", "get", "pods", "-l", "component=kube-scheduler", "-o", path).split("\n"))


def measured(release, what, action):
    """The longest pause during an action, and what it gives."""
    with Meter(release.first, 5) as meter:
        time.sleep(1)
        value = action()
    pause, lost = longest(meter.report), meter.report["never_bound"]
    if lost:
        raise Problem(f"{what}: {lost} pods were never bound")
    say(f"{what}: longest pause {pause:.2f} s")
    return pause, value


def timed_change(release):
    before = latency.digests(release.first)
    sent = release.change()
    return release.until_new(before) - sent


def refused(release):
    sent = release.change(BAD)
    told = release.until_some("Blocked") - sent
    time.sleep(5)
    return told


def failed(release):
    """Without a preflight: the first node tries it, and comes back."""
    release.change(BAD)
    return release.until_some("RolledBack")


def measure(bed):
    nodes = handover.control_planes(bed)
    release, several = Release(nodes), len(nodes) > 1
    release.load(bed)
    noise, _ = measured(release, "nothing", lambda: time.sleep(20))
    limit = None
    rows = [Row("noise", noise, "s", note="longest pause while nothing happens")]
    if several:
        found = [handover.handover(nodes)["pause_s"] for _ in range(5)]
        say(f"handovers: {found}")
        limit = max(found) + 0.5
        rows.append(Row("plain handover", max(found), "s", note=f"longest of {len(found)}: {sorted(round(one, 2) for one in found)}"))
    say("installing without preflight")
    installed, _ = measured(release, "install", lambda: release.install("none"))
    release.patcher = latency.Patcher(release.first)
    plain = [measured(release, "change without preflight", lambda: timed_change(release)) for _ in range(2)]
    bad, _ = measured(release, "bad configuration without preflight", lambda: failed(release))
    back = release.change()
    release.until(lambda phase, _: phase == "Ready", "Ready after a good configuration")
    say(f"good again after {time.monotonic() - back:.0f} s")
    release.install("static-pod")
    tried = [measured(release, "change with preflight", lambda: timed_change(release)) for _ in range(2)]
    before = release.containers()
    quiet, told = measured(release, "refused configuration", lambda: refused(release))
    restarts = sum(one not in before for one in release.containers())
    release.change()
    release.until(lambda phase, _: phase == "Ready", "Ready after a good configuration")
    release.patcher.stop()
    gone, _ = measured(release, "uninstall", lambda: release.first.run("helm", "uninstall", "schedpatch", "-n", SPACE, "--wait", "--timeout", "15m"))
    with_it, without = min(took for _, took in tried), min(took for _, took in plain)
    return [
        *rows,
        Row("install", installed, "s", limit),
        Row("good change", max(pause for pause, _ in plain + tried), "s", limit, note=f"longest of {len(plain + tried)}"),
        Row("bad configuration, no preflight", bad, "s", limit),
        Row("uninstall", gone, "s", limit),
        Row("refused by preflight", quiet, "s", max(noise, GRAIN), note="no pause beyond the noise"),
        Row("schedulers restarted by it", restarts, "", 0),
        Row("refused, told after", told, "s", 5, note="from the change of the ConfigMap"),
        Row("preflight makes a change longer by", with_it - without, "s", 4, note=f"{with_it:.1f} s with, {without:.1f} s without"),
    ]
