"""`up`: from nothing to Ready, or to a report of what failed and a clean machine."""

import json
import time

from . import down, lock, network, setup, start
from .places import Node, Problem, Task, say


def up(bed, nodes, version, systemd=False, quick_probes=False, keep=False, k3s=""):
    systemd = systemd or bool(k3s)
    wanted = {"version": version, "nodes": nodes, "systemd": systemd, "quick_probes": quick_probes, "k3s": k3s}
    setup.programs.known(version)
    start.end_on_signals()
    with lock.held(bed):
        if is_up(bed, wanted):
            return say(f"bed {bed.name} is up already: {described(wanted)}")
        if any(bed.directory.iterdir()):
            say(f"removing the remains of an earlier bed {bed.name}")
            down.remove(bed)
            bed.directory.mkdir(parents=True)
        if setup.needs(version, systemd):
            setup.setup(version, systemd)
        try:
            begin = time.monotonic()
            begin_bed(bed, wanted)
            write_record(bed, wanted)
        except BaseException:
            if keep:
                say(f"the bed is kept: see testbed logs, testbed exec; then testbed down --name {bed.name}")
            else:
                down.remove(bed)
            raise
        return say(f"bed {bed.name} is up after {time.monotonic() - begin:.1f} s: {described(wanted)}")


def begin_bed(bed, wanted):
    (bed.directory / "version").write_text(wanted["version"])
    (bed.directory / "nodes").write_text(str(wanted["nodes"]))
    network.start_bridge(bed)
    first, *others = [Node(bed, number) for number in range(1, wanted["nodes"] + 1)]
    start.start({first: task(wanted), **{node: task(wanted, through=first.number) for node in others}})


def task(record, through=None):
    return Task(record["version"], record["systemd"], record["quick_probes"], record["k3s"], through)


def is_up(bed, wanted):
    if not bed.record.exists() or not all(node.pid() for node in bed.nodes()):
        return False
    have = read_record(bed)
    if have != wanted:
        raise Problem(
            f"bed {bed.name} is up with {described(have)}, which is not what was asked for: "
            f"testbed down --name {bed.name} first, or choose another --name"
        )
    return True


def read_record(bed):
    if not bed.record.exists():
        raise Problem(f"bed {bed.name} is not up: testbed up --name {bed.name}")
    return {"k3s": "", **json.loads(bed.record.read_text())}


def write_record(bed, record):
    bed.record.write_text(json.dumps(record) + "\n")


def described(record):
    kinds = [word for key, word in (("systemd", "systemd"), ("quick_probes", "quick probes")) if record[key]]
    kinds += [f"k3s ({record['k3s']})"] if record["k3s"] else []
    nodes = f"{record['nodes']} node{'s' if record['nodes'] > 1 else ''}"
    return ", ".join([f"Kubernetes {record['version']}", nodes, *kinds])
