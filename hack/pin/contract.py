"""The contract of the original: its walk-throughs, its rights, and what people ask."""

import json
import re
import subprocess
import time

from pin.bed import ROOT, TESTBED, wait


def example_of_one_pass(bed):
    """The seed's first walk-through, line by line."""
    bed.statefulset("web")
    wait(lambda: bed.pods("app=web") == {"web-0": ("Pending", "")}, "web-0 is Pending")
    bed.kubectl("label node cp2 rf.scheduler.test/web-0=whatever")
    said = bed.pin("--name test")
    assert re.search(r"Pod web-0 scheduled on node cp2", said), said
    wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp2"), "web-1": ("Pending", "")}, "web-0 runs, web-1 waits")
    bed.kubectl("label node cp2 rf.scheduler.test/web-1=whatever rf.scheduler.test/web-2=whatever")
    for number in (1, 2):
        bed.pin("--name test")
        wait(lambda: bed.pods("app=web").get(f"web-{number}") == ("Running", "cp2"), f"web-{number} runs")
        if number == 1:
            wait(lambda: "web-2" in bed.pods("app=web"), "web-2 is made")


def example_of_the_daemon(bed):
    """The seed's second walk-through: relabelling acts on the next pod; the log; the metrics on any path."""
    bed.statefulset("web")
    bed.kubectl("label node cp2 rf.scheduler.test/web-0=a rf.scheduler.test/web-1=a rf.scheduler.test/web-2=a")
    with bed.start("--name test --daemon -vv", env="SCHED_PROMETHEUS_PORT=18000") as daemon:
        all_on = lambda node: bed.pods("app=web") == {f"web-{n}": ("Running", node) for n in range(3)}
        wait(lambda: all_on("cp2"), "all run on cp2")
        bed.kubectl("label node cp2 rf.scheduler.test/web-0- rf.scheduler.test/web-1- rf.scheduler.test/web-2-")
        bed.kubectl("label node cp1 rf.scheduler.test/web-0=a rf.scheduler.test/web-1=a rf.scheduler.test/web-2=a")
        time.sleep(2)
        assert all_on("cp2"), "nothing happens by relabelling"
        bed.kubectl("delete pod -l app=web")
        wait(lambda: all_on("cp1"), "all run on cp1")
        for number in range(3):
            assert f"Pod web-{number} scheduled on node cp1" in daemon.said(), daemon.said()
        metrics = bed.run("curl -s http://127.0.0.1:18000/any/path")
        line = 'schedule_request_success_total{namespace="default",node="cp1",pod="web-0",scheduler="test"} 1.0'
        assert line in metrics, metrics


def rights_of_the_original(bed):
    """The seed's RBAC suffices: without the right to watch it polls; its roleRef is taken as it stands or corrected."""
    rights = (ROOT / "docs/pin-rights-of-the-original.yaml").read_text()
    as_it_was = rights.replace('apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole', 'apiGroup: ""\n  kind: ClusterRole')
    tried = subprocess.run([TESTBED, "exec", "--name", bed.name, "cp1", "kubectl", "apply", "-f", "-"], input=as_it_was, capture_output=True, text=True)
    print(f"        the original's roleRef: {(tried.stderr or 'accepted').strip().splitlines()[-1]}")
    bed.kubectl("apply -f -", stdin=rights)
    account = "/tmp/pin-e2e-account"
    bed.run(f"mkdir -p {account}; kubectl create token -n rfscheduler rfscheduler >{account}/token; cp /etc/kubernetes/pki/ca.crt {account}/ca.crt")
    bed.statefulset("web", replicas=1)
    env = f"SCHED_INCLUSTER_BASE_PATH={account} KUBECONFIG= KUBERNETES_SERVICE_HOST=10.96.0.1 KUBERNETES_SERVICE_PORT=443 SCHED_PROMETHEUS=false SCHED_DELAY=1"
    with bed.start("--name test -d", env=env) as daemon:
        wait(lambda: "listing every 1 s instead" in daemon.said(), "it polls")
        bed.kubectl("label node cp2 rf.scheduler.test.default/web-0=")
        wait(lambda: bed.pods("app=web") == {"web-0": ("Running", "cp2")}, "web-0 runs")


def commands_for_people(bed):
    """list, import (dry run first) and why."""
    bed.statefulset("web", replicas=2, spec="nodeName: cp2", more_labels="schedpatch.io/pin: test")
    wait(lambda: bed.pods("app=web") == {f"web-{n}": ("Running", "cp2") for n in range(2)}, "they run")
    dry = bed.pin("--name test import web")
    assert "kubectl label node cp2 rf.scheduler.test.default/web-0= rf.scheduler.test.default/web-1=" in dry and "nothing was changed" in dry, dry
    assert "web-0" not in bed.pin("--name test list")
    assert "2 labels written" in bed.pin("--name test import web --apply")
    listed = bed.pin("--name test list", check=False)
    assert len(re.findall(r"default +web-\d +cp2", listed)) == 2, listed
    assert "runs on cp2" in bed.pin("--name test why web-1")


def five_thousand_pins(bed):
    """5,000 pins on the nodes, and a pod among them is found at once."""
    for node, first in (("cp1", 0), ("cp2", 2500)):
        labels = {f"rf.scheduler.test.default/many-{n}": "" for n in range(first, first + 2500)}
        patch = json.dumps({"metadata": {"labels": labels}})
        bed.kubectl(f"patch node {node} --type=merge --patch-file=/dev/stdin", stdin=patch)
    with bed.start("--name test -d", env="SCHED_PROMETHEUS_PORT=18000"):
        wait(lambda: "schedpatch_pin_pins 5000.0" in bed.run("curl -s http://127.0.0.1:18000/", check=False), "5,000 pins are known")
        bed.statefulset("many", replicas=1)
        wait(lambda: bed.pods("app=many") == {"many-0": ("Running", "cp1")}, "many-0 runs")
