"""What the scheduler refuses, and what cannot be started: the running scheduler must not notice."""

import time

from .cluster import GOOD, IMAGE, PATCH_PODS, PLAIN, VERSION, stamped

CERTIFICATE = """extenders:
- urlPrefix: https://127.0.0.1:8889
  filterVerb: filter
  ignorable: true
  enableHTTPS: true
  tlsConfig: {caData: Z2FyYmFnZQ==}
"""

# Of a panic the kubelet keeps only the end, the trace.
# What is wanted, the phase and reason that must follow, and a word of the message. Nothing of it may touch the running scheduler.
REFUSED = {
    "arguments that the plugin refuses": ({"image": IMAGE, "command": "/own-scheduler"}, stamped(other=1), "PreflightFailed", "needs the argument label"),
    "a plugin that panics": ({"image": IMAGE, "command": "/own-scheduler"}, stamped(label="rank", mode="panic"), "PreflightFailed", "main.main()"),
    "a program that ends at once": ({"image": IMAGE, "command": "/own-scheduler-ends"}, GOOD, "PreflightFailed", "ends at once"),
    "a wrong path of the program": ({"image": IMAGE, "command": "/no-such-program"}, GOOD, "PreflightFailed", "no-such-program"),
    "a user that may not read the credentials": ({"image": IMAGE, "command": "/own-scheduler", "runAsUser": 65532}, GOOD, "PreflightFailed", "permission denied"),
    "an image that cannot be pulled": ({"image": f"localhost:1/nowhere/own-scheduler:{VERSION}"}, GOOD, "PreflightObstructed", "localhost:1"),
    "an image newer than the API server": ({"image": IMAGE.replace(VERSION, "v1.37.0"), "command": "/own-scheduler"}, PLAIN, "SchedulerNewer", "1.37"),
    "a plugin that blocks": ({"image": IMAGE, "command": "/own-scheduler"}, stamped(label="rank", mode="block"), "PreflightUnclear", "did not end"),
    "a fork that ignores the flag": ({"image": IMAGE, "command": "/own-scheduler-ignores"}, GOOD, "PreflightUnclear", "did not end"),
    "an extender's certificate that is none": ({}, PLAIN + CERTIFICATE, "NotPem", "PEM file"),
    "a plugin that the stock image does not have": ({}, GOOD, "UnknownPlugin", "Stamp"),
}


def refused(cluster, scheduler, config, reason, words):
    before, (leads, _), digest, attempts = cluster.scheduler(), cluster.lease(), cluster.digest(), cluster.attempts()
    began, ran = time.monotonic(), set()
    cluster.helm({**scheduler, "rbac": PATCH_PODS}, config)
    changed = time.monotonic()

    def fits(phase, own, message):
        if reason == "PreflightUnclear":
            ran.update(cluster.preflights())
        return phase == "Blocked" and own == reason and words in message

    # the node still says what came of the case before, perhaps in the same words
    cluster.wait(fits, f"Blocked/{reason} with {words!r}", 200, instead_of=digest)
    told = time.monotonic()
    if reason.startswith("Preflight"):
        assert cluster.attempts() > attempts, "no preflight was begun"
    if reason == "PreflightUnclear":
        # it ran for a minute, and took part in no election: the same scheduler leads, and nobody made the Lease that it asks for
        assert scheduler["command"] in ran, f"of preflights only these ran: {ran}"
        leads_now, leases = cluster.lease()
        assert leads_now == leads, f"another scheduler leads, or led: {leads} {leads_now}"
        assert not any("schedpatch-preflight" in name for lease in leases for name in lease), leases
    # an obstacle stays until it is removed; all other preflights are over
    if reason != "PreflightObstructed":
        cluster.no_preflight_left()
    # what the scheduler itself says comes at once
    assert reason != "PreflightFailed" or told - changed < 5, f"told only {told - changed:.1f} s after helm upgrade"
    time.sleep(3)
    assert cluster.scheduler() == before, f"the running scheduler was touched: {before} {cluster.scheduler()}"
    return f"told {told - changed:.1f} s after helm upgrade ({told - began:.0f} s in all), the scheduler was not touched"
