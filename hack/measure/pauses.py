"""For how long nothing is scheduled while the chart is installed, a configuration changes, one is refused, one fails, and the chart is
uninstalled; beside what plain handovers and an idle cluster cost in the same run."""

import json
import subprocess
import time

from own_image import images
from own_image.cluster import IMAGE

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


# it ends at once, whatever it is asked
ENDING = {"image": IMAGE, "command": "/own-scheduler-ends"}


class Release:
    def __init__(self, nodes):
        self.nodes, self.first, self.number, self.patcher = nodes, nodes[0], 100, None

    def load(self, bed):
        for archive in (images.agent(), images.own_scheduler()):
            subprocess.run([TESTBED, "load", "--name", bed, archive], check=True, capture_output=True)

    def upgrade(self, preflight, scheduler=None):
        """`helm upgrade`; gives when it was done."""
        values = {"config": {"config.yaml": GOOD.format(number=self.number)}, "scheduler": scheduler or {}, "preflight": preflight, "verifyTimeout": "90s"}
        self.first.run("sh", "-c", "mkdir -p /tmp/pauses && cat > /tmp/pauses/values.yaml", text=json.dumps(values))
        self.first.run("helm", "upgrade", "--install", "schedpatch", ROOT / "charts/schedpatch", "-n", SPACE, "--create-namespace", "-f", "/tmp/pauses/values.yaml")
        return time.monotonic()

    def install(self, preflight):
        self.number += 1
        before = latency.digests(self.first)
        self.upgrade(preflight)
        return self.until_new(before)

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

    def until_refused(self, before, patience=120):
        """When the first node says that its preflight refused what is wanted now, and not what was wanted before."""
        path = "jsonpath={range .items[*]}" + " ".join(f"{{.metadata.annotations.schedpatch\\.io/{key}}}" for key in ("phase", "reason", "digest")) + '{"\\n"}{end}'
        end = time.monotonic() + patience
        while time.monotonic() < end:
            shown = [tuple(line.split()) for line in self.first.kubectl("get", "nodes", "-o", path).splitlines()]
            if any(one[:2] == ("Blocked", "PreflightFailed") and one[2] not in before for one in shown if len(one) == 3):
                return time.monotonic()
            time.sleep(0.1)
        raise Problem(f"no node is Blocked/PreflightFailed after {patience} s: {shown}")

    def containers(self):
        """The container of each scheduler, and how often it was restarted."""
        path = 'jsonpath={range .items[*]}{.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}{"\\n"}{end}'
        found = self.first.kubectl("-n", "kube-system", "get", "pods", "-l", "component=kube-scheduler", "-o", path).splitlines()
        if len(found) != len(self.nodes):
            raise Problem(f"there are {len(self.nodes)} nodes, and the schedulers are {found}")
        return found


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


def refused(release, what, change, noise):
    """What it costs that the scheduler refuses in a preflight."""
    before, digests = release.containers(), latency.digests(release.first)

    def act():
        sent = change()
        told = release.until_refused(digests)
        # whoever would apply it all the same needs some seconds
        time.sleep(15)
        return told - sent

    pause, told = measured(release, f"{what} that the scheduler refuses, with preflight", act)
    restarts = sum(one not in before for one in release.containers())
    return [
        Row(f"{what} that the scheduler refuses, with preflight", pause, "s", max(noise, GRAIN), note=f"{len(release.nodes)} nodes, no pause beyond the noise"),
        Row("  schedulers restarted by it", restarts, "", 0, note=f"of {len(before)}, by the ids of their containers"),
        Row("  told after", told, "s", 5),
    ]


def refusals(release, noise):
    """A configuration and an image; what was there before is wanted again afterwards."""
    rows = refused(release, "a configuration", lambda: release.change(BAD), noise)
    timed_change(release)
    # with the configuration that is there: agents that do not know the image yet must find nothing to do
    rows += refused(release, "an image", lambda: release.upgrade("static-pod", ENDING), noise)
    release.install("static-pod")
    return rows


def failed(release):
    """Without a preflight: the first node tries it, and comes back."""
    release.change(BAD)
    return release.until_some("RolledBack")


def begin(bed):
    """A bed with the images, and its noise."""
    release = Release(handover.control_planes(bed))
    release.load(bed)
    noise, _ = measured(release, "nothing", lambda: time.sleep(20))
    return release, noise, Row("noise", noise, "s", note="longest pause while nothing happens")


def measure_refusals(bed):
    """Only what a preflight refuses."""
    release, noise, row = begin(bed)
    release.install("static-pod")
    release.patcher = latency.Patcher(release.first)
    rows = [row, *refusals(release, noise)]
    release.patcher.stop()
    release.first.run("helm", "uninstall", "schedpatch", "-n", SPACE, "--wait", "--timeout", "15m")
    return rows


def measure(bed):
    release, noise, row = begin(bed)
    limit, rows, nodes = None, [row], release.nodes
    if len(nodes) > 1:
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
    quiet = refusals(release, noise)
    release.patcher.stop()
    gone, _ = measured(release, "uninstall", lambda: release.first.run("helm", "uninstall", "schedpatch", "-n", SPACE, "--wait", "--timeout", "15m"))
    with_it, without = min(took for _, took in tried), min(took for _, took in plain)
    return [
        *rows,
        Row("install", installed, "s", limit),
        Row("good change", max(pause for pause, _ in plain + tried), "s", limit, note=f"longest of {len(plain + tried)}"),
        Row("bad configuration, no preflight", bad, "s", limit),
        Row("uninstall", gone, "s", limit),
        *quiet,
        Row("preflight makes a change longer by", with_it - without, "s", 4, note=f"{with_it:.1f} s with, {without:.1f} s without"),
    ]
