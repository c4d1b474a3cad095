"""Many changes and many restarts of the agent: one restart of k3s for each change, none for an agent."""

import signal
import time
from collections import Counter

from .bed import wait
from .changes import QUIET
from .release import ready

CHANGES, RESTARTS = 20, 50


def twenty_changes(release):
    server = release.node
    ready(release)
    counts, took = [], []
    for _ in range(CHANGES):
        before, begin = server.starts(), time.monotonic()
        release.change()
        release.expect_ready()
        took.append(time.monotonic() - begin)
        time.sleep(2)
        counts.append(server.starts() - before)
    time.sleep(QUIET)
    assert counts == [1] * CHANGES, f"restarts of k3s for each change: {dict(Counter(counts))}"
    return f"{CHANGES} changes, 1 restart each; Ready after {sorted(took)[len(took) // 2]:.1f} s (median), {max(took):.1f} s at most"


def fifty_restarts_of_the_agent(release):
    """By SIGKILL, by SIGTERM, by a new pod."""
    server = release.node
    ready(release)
    before = server.starts()
    for number in range(RESTARTS):
        old = server.agent_pids()
        if number % 10 == 9:  # a new pod also ends the kubelet's back-off
            release.delete_agents()
            wait(lambda: not set(old) & set(server.agent_pids()), "the old agent's end", 90)
        else:
            server.kill_agent(signal.SIGKILL if number % 2 else signal.SIGTERM)
        wait(lambda: set(server.agent_pids()) - set(old), "a new agent", 400)
        time.sleep(1)
    release.expect_ready()
    time.sleep(QUIET)
    assert server.starts() == before, f"{server.starts() - before} restarts of k3s by {RESTARTS} restarts of the agent"
    return f"{RESTARTS} restarts of the agent, 0 of k3s"
