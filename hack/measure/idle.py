"""What the agent costs when nothing happens.

The watch of the pod ends and is renewed at a known period. Every window holds one renewal, and what that costs is spread
over its period: a window of three minutes then tells the same as one of an hour.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

from . import audit, trace
from .bed import Problem, say

# all that belongs to a renewal happens within this, before and after the API server notes it
AROUND = 3.0


@dataclass
class Idle:
    pss: int = 0
    anonymous: int = 0
    cpu_ms: float = 0.0       # per minute
    calls: float = 0.0        # per minute
    received: float = 0.0     # bytes per minute
    requests: float = 0.0     # per hour
    renewal_calls: int = 0
    names: Counter = field(default_factory=Counter)
    asked: list = field(default_factory=list)


def measure(agent, node, minutes, settled):
    """Two windows: the first without a tracer (memory, processor, requests), the second with one (system calls)."""
    idle, seconds = Idle(), minutes * 60
    start = wait_for_window(node, settled, seconds)
    samples = sample(agent, start, seconds, idle)
    idle.asked = [one for one in audit.asked(node, start) if one.at < start + seconds]
    renewals, period = renewals_of(idle.asked, node, settled)
    idle.cpu_ms = spent(samples, renewals, period) * 1e3
    others = [one for one in idle.asked if not one.is_renewal()]
    idle.requests = len(others) * 60 / minutes + 3600 / period

    wait_for_window(node, settled, seconds)
    calls, began, ended = trace.attached(agent.pid, seconds)
    renewals, period = renewals_of([one for one in audit.asked(node, began) if one.at < ended], node, settled)
    idle.names = Counter(call.name for call in calls)
    in_renewal = [call for call in calls if any(abs(call.at - at) < AROUND for at in renewals)]
    idle.renewal_calls = len(in_renewal) // max(1, len(renewals))
    ends = [(began, 0)] + [(call.at, number + 1) for number, call in enumerate(calls)] + [(ended, len(calls))]
    idle.calls = spent(ends, renewals, period)
    bytes_so_far, received = 0, [(began, 0)]
    for call in calls:
        bytes_so_far += call.received
        received.append((call.at, bytes_so_far))
    idle.received = spent([*received, (ended, bytes_so_far)], renewals, period)
    return idle


def spent(samples, renewals, period):
    """Per minute, of a quantity that grows, from (time, value): the quiet part, and the share of a renewal."""
    (began, first), (ended, last) = samples[0], samples[-1]

    def value(at):
        return max((value for when, value in samples if when <= at), default=first)

    costs = [value(at + AROUND) - value(at - AROUND) for at in renewals]
    quiet = (last - first - sum(costs)) * 60 / (ended - began - 2 * AROUND * len(costs))
    return quiet + sum(costs) / len(costs) * 60 / period


def sample(agent, start, seconds, idle):
    samples = []
    while not samples or samples[-1][0] < start + seconds:
        samples.append((time.time(), agent.cpu()))
        pss, anonymous = agent.pss()
        idle.pss, idle.anonymous = max(idle.pss, pss), max(idle.anonymous, anonymous)
        if not agent.is_alive():
            raise Problem(f"the agent ended while it was idle: {agent.lines[-1:]}")
        time.sleep(1)
    return samples


def wait_for_window(node, since, seconds):
    """Sleeps until a window of this length will have a renewal in its middle."""
    watches = [one for one in audit.asked(node, since - 3600) if one.is_renewal()]
    if not watches or not watches[-1].period():
        raise Problem("the audit log shows no watch of the agent with a period")
    renewal = watches[-1].at + watches[-1].period()
    while renewal - seconds / 2 < time.time() and renewal - AROUND * 2 < time.time():
        renewal += watches[-1].period()
    start = max(time.time(), renewal - seconds / 2)
    delay = max(0, start - time.time())
    say(f"idle: a window of {seconds / 60:g} min begins in {delay:.0f} s")
    time.sleep(delay)
    return time.time()


def renewals_of(asked, node, since):
    watches = [one for one in audit.asked(node, since - 3600) if one.is_renewal()]
    renewals = [one.at for one in asked if one.is_renewal()]
    if not renewals:
        raise Problem("the watch was not renewed when it should have been; see the audit log of the bed")
    return renewals, watches[-1].period()
