"""schedpatch-pin from its chart and image, with the chart's rights: what people install."""

import json
import subprocess

from pin.bed import ROOT, TESTBED, wait
from pin.modes import GATE, VOLUME, WITH_VOLUME

NAMESPACE = "schedpatch-pin-e2e"
VALUES = "--set agent.enabled=false --set pin.enabled=true --set pin.delay=2"


def installed(bed):
    return bed.kubectl(f"get deployment,role,lease -n {NAMESPACE} -o name; kubectl get clusterrole,clusterrolebinding -o name | grep schedpatch", check=False)


def replicas(bed, name):
    """Pods of a named instance: node and address by name."""
    items = json.loads(bed.kubectl(f"get pods -n {NAMESPACE} -l schedpatch.io/pin-name={name} -o json"))["items"]
    ready = [i for i in items if "deletionTimestamp" not in i["metadata"] and i["status"].get("podIP")]
    return {i["metadata"]["name"]: (i["spec"]["nodeName"], i["status"]["podIP"]) for i in ready}


def leader(bed, name):
    return bed.kubectl(f"get lease schedpatch-pin-{name} -n {NAMESPACE} -o jsonpath='{{.spec.holderIdentity}}'", check=False)


def chart(bed):
    """helm install of two named instances; volumes, gates, metrics, the leader deleted; upgrade; uninstall."""
    archive = sorted((ROOT / "target/image").glob("schedpatch-pin-[0-9]*.[0-9].tar"))
    assert archive, "no image: hack/image --program schedpatch-pin"
    subprocess.run([TESTBED, "load", "--name", bed.name, archive[-1]], check=True, capture_output=True)
    helm = lambda words: bed.run(f"helm {words}")
    install = f"schedpatch {ROOT}/charts/schedpatch -n {NAMESPACE} {VALUES} --wait --timeout 2m"
    bed.kubectl("delete pv local-0 --ignore-not-found")
    try:
        helm(f"install {install} --create-namespace --set 'pin.names={{test,other}}'")
        both = {name: replicas(bed, name) for name in ("test", "other")}
        assert all(len({node for node, _ in one.values()}) == 2 for one in both.values()), f"two nodes each: {both}"
        named_instances(bed)
        rights_and_volumes(bed)
        endpoints(bed)
        leader_deleted(bed)
        helm(f"upgrade {install} --set 'pin.names={{test}}'")
        wait(lambda: not replicas(bed, "other") and len(replicas(bed, "test")) == 2, "only test is left")
    finally:
        helm(f"uninstall schedpatch -n {NAMESPACE} --wait --ignore-not-found")
        left = installed(bed).replace("lease.coordination.k8s.io/schedpatch-pin-test", "").replace("lease.coordination.k8s.io/schedpatch-pin-other", "")
        bed.kubectl(f"delete namespace {NAMESPACE} --ignore-not-found")
        bed.kubectl("delete pv local-0 --ignore-not-found --wait=false")
    assert not left.strip(), f"left behind: {left}"


def named_instances(bed):
    for name in ("test", "other"):
        bed.statefulset(f"of-{name}", replicas=1, spec=f"schedulerName: {name}")
    bed.kubectl("label node cp2 rf.scheduler.test.default/of-test-0= rf.scheduler.test.default/of-other-0=")
    wait(lambda: bed.pods("app=of-test") == {"of-test-0": ("Running", "cp2")}, "of-test-0 runs")
    wait(lambda: "NoNodeLabelled" in bed.reasons("of-other-0"), "the label of one instance is none of the other")
    bed.kubectl("label node cp1 rf.scheduler.other.default/of-other-0=")
    wait(lambda: bed.pods("app=of-other") == {"of-other-0": ("Running", "cp1")}, "of-other-0 runs")


def rights_and_volumes(bed):
    bed.kubectl("apply -f -", stdin=VOLUME)
    bed.statefulset("gated", replicas=1, spec=f"{GATE}\n      {WITH_VOLUME}", more_labels="schedpatch.io/pin: test")
    bed.statefulset("late", replicas=1, spec=f"schedulerName: test\n      {WITH_VOLUME}")
    bed.kubectl("label node cp1 rf.scheduler.test.default/late-0=1")
    wait(lambda: "VolumeWaitsForConsumer" in bed.reasons("late-0"), "VolumeWaitsForConsumer")
    bed.kubectl("label node cp2 rf.scheduler.test.default/gated-0=")
    wait(lambda: bed.pods("app=gated") == {"gated-0": ("Running", "cp2")}, "gated-0 runs on cp2")
    wait(lambda: "VolumeUnreachable" in bed.reasons("late-0"), "VolumeUnreachable")
    bed.kubectl("label node cp2 rf.scheduler.test.default/late-0=2")
    wait(lambda: bed.pods("app=late") == {"late-0": ("Running", "cp2")}, "late-0 runs on cp2")


def endpoints(bed):
    for name, (node, address) in replicas(bed, "test").items():
        get = lambda what: bed.run(f"curl -s -m 5 http://{address}:{what}", node=node)
        assert get("8081/livez").startswith("ok") and get("8081/readyz").startswith("ok")
        is_leader = 1 if name in leader(bed, "test") else 0
        assert f"schedpatch_pin_leader {is_leader}.0" in get("8000/any/path"), get("8000/any/path")


def leader_deleted(bed):
    before = leader(bed, "test")
    name = next(name for name in replicas(bed, "test") if name in before)
    bed.kubectl(f"delete pod {name} -n {NAMESPACE} --force --grace-period=0 2>/dev/null")
    wait(lambda: leader(bed, "test") not in ("", before), "another replica leads", 60)
    bed.kubectl("label node cp2 rf.scheduler.test.default/of-test-0-")
    bed.kubectl("label node cp1 rf.scheduler.test.default/of-test-0=")
    bed.kubectl("delete pod of-test-0")
    wait(lambda: bed.pods("app=of-test") == {"of-test-0": ("Running", "cp1")}, "of-test-0 runs on cp1")
