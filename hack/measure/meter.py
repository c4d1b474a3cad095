"""Measures, from outside of a bed, for how long nothing is scheduled in it while something happens."""

import json
import subprocess
import time

from .bed import ROOT, Problem, say
from .pause import PATIENCE, STARTED


class Meter:
    """`with Meter(node) as meter: …` measures what happens in the block; `meter.report` is there afterwards.

    The node is the one whose API server is used: one that stays."""

    def __init__(self, node, settle=0.0):
        self.node, self.settle, self.report = node, settle, None
        line = node.line(["env", f"PYTHONPATH={ROOT / 'hack'}", "python3", "-B", "-m", "measure.pause"])
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.child = subprocess.Popen(line, start_new_session=True, **pipes)
        if self.child.stdout.readline().strip() != STARTED:
            raise Problem(f"the measurement in {node.name} cannot begin: {self.child.stderr.read().strip()}")

    def stop(self):
        """Goes on for the settling time, then ends; returns the report."""
        time.sleep(self.settle)
        said, complaint = self.child.communicate(timeout=PATIENCE + 60)
        if self.child.returncode:
            raise Problem(f"the measurement in {self.node.name} failed: {complaint.strip()}")
        if complaint:
            say(complaint.strip())
        self.report = json.loads(said)
        return self.report

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.settle = 0
        self.stop()


def longest(report):
    return report["pauses"][0]["seconds"] if report["pauses"] else 0.0


def sentence(report):
    """The report for people, in one line."""
    bound = "all bound" if not report["never_bound"] else f"{report['never_bound']} NEVER BOUND"
    pauses = ", ".join(f"{pause['seconds']:.2f} s (at +{pause['at']:.0f} s)" for pause in report["pauses"])
    text = f"{report['pods']} pods, {bound}"
    if report["latency_p50_s"] is not None:
        text += f"; latency p50 {report['latency_p50_s'] * 1000:.0f} ms, max {report['latency_max_s']:.2f} s"
    text += f"; longest pauses {pauses or 'none'}"
    if report["not_created"] or report["watch_breaks"]:
        text += f"; the API failed: pods not created {report['not_created']}, watches broken off {report['watch_breaks']}"
    return text
