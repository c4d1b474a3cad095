"""Two and three servers with embedded etcd: one at a time, and not without a quorum unless a person says so."""

import threading
import time

from .bed import wait
from .release import ready


class Changing:
    """Looks again and again which servers are in change: a trial is there, or k3s ends, is off, or has started no scheduler yet."""

    def __init__(self, bed):
        self.bed, self.together, self.seen = bed, [], set()
        self.lost = {server.name: server.lost_leaderships() for server in bed.nodes}
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.is_over.wait(0.2):
            now = {server.name for server in self.bed.nodes if server.is_trying() or self.is_off(server)}
            self.seen |= now
            if len(now) > 1:
                self.together.append(sorted(now))

    def is_off(self, server):
        """Whether k3s is on its way, and somebody asked for that: an end for a lost lease of etcd is no change."""
        known, is_off = server.lost_leaderships(), not server.is_active() or not server.last_scheduler()
        if not is_off:
            self.lost[server.name] = known
        return is_off and known == self.lost[server.name]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def starts(bed):
    """That somebody asked for. A server whose etcd was without a leader for too long starts anew by itself, as a real one."""
    return {server.name: server.starts() - server.lost_leaderships() for server in bed.nodes}


def lost(bed):
    return {server.name: server.lost_leaderships() for server in bed.nodes}


def one_each(bed, before, expected=1, excused=None):
    """One restart each. Of those by themselves, at most one for each server that was changed may be excused (`lost` before it)."""
    time.sleep(20)
    found = {name: now - before[name] for name, now in starts(bed).items()}
    by_itself = {name: now - (excused or {}).get(name, now) for name, now in lost(bed).items()}
    assert max(by_itself.values()) < bed.count, f"k3s ended by itself too often, with a lost lease of etcd: {by_itself}"
    words = [f"{server.name}: {line}" for server in bed.nodes for line in server.log().splitlines() if "Shutdown" in line]
    assert set(found.values()) == {expected}, f"restarts of k3s: {found}; {words}"


def two_servers_need_consent(release):
    """To restart one of two takes the API away from both."""
    bed = release.bed
    release.remove()
    before = starts(bed)
    release.helm("install")
    time.sleep(90)  # longer than a server must have been Ready
    told = {server.name: server.annotations() for server in bed.nodes}
    assert starts(bed) == before, f"k3s was restarted: {told}"
    assert all(each.get("phase") in ("Waiting", "Blocked") for each in told.values()), told
    assert any("quorum" in each.get("message", "").lower() for each in told.values()), told
    with Changing(bed) as changing:
        release.helm("upgrade", "rollout.allowQuorumLoss=true")
        release.expect_ready(seconds=400)
    assert not changing.together and len(changing.seen) == 2, (changing.together, changing.seen)
    one_each(bed, before)


def change_on_two_servers(release):
    bed = release.bed
    ready(release, "rollout.allowQuorumLoss=true")
    before, excused = starts(bed), lost(bed)
    with Changing(bed) as changing:
        release.change()
        release.expect_ready(seconds=400)
    assert not changing.together and len(changing.seen) == 2, (changing.together, changing.seen)
    one_each(bed, before, excused=excused)


def three_servers_one_at_a_time(release):
    """Install, change, uninstall: never two in change at once, one restart each."""
    bed = release.bed
    release.remove()
    begin = time.monotonic()
    for what in (lambda: release.helm("install"), release.change):
        before, excused = starts(bed), lost(bed)
        with Changing(bed) as changing:
            what()
            release.expect_ready(seconds=600)
        assert not changing.together and len(changing.seen) == 3, (changing.together, changing.seen)
        one_each(bed, before, excused=excused)
    before, excused = starts(bed), lost(bed)
    with Changing(bed) as changing:
        release.uninstall()
        for server in bed.nodes:
            wait(server.answers, "a scheduler")
            assert "--config=" not in server.last_scheduler(), server.last_scheduler()
    assert not changing.together and len(changing.seen) == 3, (changing.together, changing.seen)
    one_each(bed, before, excused=excused)
    return f"install, change and uninstall after {time.monotonic() - begin:.0f} s"


def bad_configuration_on_one_of_three(release):
    """The first that tries it comes back; the others never try."""
    bed = release.bed
    ready(release)
    before, good = starts(bed), release.mark
    with Changing(bed) as changing:
        release.change(is_bad=True)
        wait(lambda: any(server.annotations().get("phase") == "RolledBack" for server in bed.nodes), "a rollback", 300)
        for server in bed.nodes:
            wait(lambda server=server: server.runs_with() == good, f"{server.name} with the old configuration", 120)
    time.sleep(60)
    found = {name: now - before[name] for name, now in starts(bed).items() if now != before[name]}
    assert len(found) == 1 and len(changing.seen) == 1, f"restarts of k3s: {found}, trials: {changing.seen}"
    release.change()
    release.expect_ready(seconds=400)
    return f"starts of k3s: {found}"


def a_lost_server_stops_the_rollout(release):
    """Nobody begins while another server that runs etcd is not Ready; it goes on when that one is back."""
    bed = release.bed
    ready(release)
    gone, others = bed.nodes[2], bed.nodes[:2]
    gone.lose()
    try:
        wait(lambda: " Ready" not in release.node.kubectl("get", "node", gone.name, "--no-headers", check=False), "NotReady", 120)
        before = {server.name: server.starts() for server in others}
        release.change()
        time.sleep(60)
        assert {server.name: server.starts() for server in others} == before, "a server was restarted without a quorum to spare"
    finally:
        gone.come_back()
    release.expect_ready(seconds=600)
