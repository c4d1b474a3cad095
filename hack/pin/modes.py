"""Both modes: why pods wait, volumes, gates, StatefulSets over all nodes."""

import time

from pin.bed import wait

GATE = "schedulingGates: [{name: schedpatch.io/pin}]"
OPT_IN = "schedpatch.io/pin: test"
VOLUME = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: local-0}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: waits
  persistentVolumeReclaimPolicy: Retain
  hostPath: {path: /tmp}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [cp2]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: waits, resources: {requests: {storage: 1Gi}}}
"""
WITH_VOLUME = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]"


def label(bed, node, *pods, value=""):
    bed.kubectl(f"label --overwrite node {node} " + " ".join(f"rf.scheduler.test.default/{pod}={value}" for pod in pods))


def statefulsets_over_all_nodes(bed):
    """In both modes each pod runs on its own node, and is back there after all were deleted at once."""
    with bed.start("--name test -d --mode both"):
        bed.statefulset("bound", replicas=len(bed.nodes))
        bed.statefulset("gated", replicas=len(bed.nodes), spec=GATE, more_labels=OPT_IN)
        expected = {}
        for number, node in enumerate(bed.nodes):
            label(bed, node, f"bound-{number}", f"gated-{number}")
            expected |= {f"{kind}-{number}": ("Running", node) for kind in ("bound", "gated")}
        wait(lambda: bed.pods("tier=db") | bed.pods("schedpatch.io/pin=test") == expected, f"they run: {expected}")
        bed.kubectl("delete pods --all --force --grace-period=0 2>/dev/null")
        wait(lambda: bed.pods("tier=db") | bed.pods("schedpatch.io/pin=test") == expected, f"they run again: {expected}", 90)


def reasons_in_events(bed):
    """Events on the pod say why it waits: no label, cordon, taint, no room."""
    bed.statefulset("web", replicas=1, cpu="'1'")
    with bed.start("--name test -d"):
        try:
            wait(lambda: "NoNodeLabelled" in bed.reasons("web-0"), "NoNodeLabelled")
            bed.kubectl("cordon cp2")
            bed.kubectl("label node cp2 rf.scheduler.test.default/web-0=")
            wait(lambda: "NodeCordoned" in bed.reasons("web-0"), "NodeCordoned")
            assert "is cordoned" in bed.pin("--name test why web-0")
            bed.kubectl("taint node cp2 a=b:NoSchedule")
            bed.kubectl("uncordon cp2")
            wait(lambda: "NodeTainted" in bed.reasons("web-0"), "NodeTainted")
            assert "NodeTainted" in bed.reasons("cp2"), "the node's events say it too"
        finally:
            bed.kubectl("uncordon cp2")
            bed.kubectl("taint node cp2 a-", check=False)
        wait(lambda: bed.pods("app=web")["web-0"] == ("Running", "cp2"), "web-0 runs")
        bed.statefulset("big", replicas=1, cpu="'1000'")
        bed.kubectl("label node cp2 rf.scheduler.test.default/big-0=")
        wait(lambda: "DoesNotFit" in bed.reasons("big-0"), "DoesNotFit")
        assert bed.pods("app=big") == {"big-0": ("Pending", "")}, "no OutOfcpu"


def volumes(bed):
    """Volumes that wait for their consumer need gate mode; a bound one is never asked of a node that cannot mount it."""
    bed.kubectl("delete pv local-0 --ignore-not-found")
    bed.kubectl("apply -f -", stdin=VOLUME)
    with bed.start("--name test -d --mode both", env="SCHED_PROMETHEUS=false SCHED_DELAY=2"):
        bed.statefulset("early", replicas=1, spec=f"schedulerName: test\n      {WITH_VOLUME}")
        label(bed, "cp2", "early-0", "gated-0")
        wait(lambda: "VolumeWaitsForConsumer" in bed.reasons("early-0"), "VolumeWaitsForConsumer")
        bed.kubectl("delete statefulset early")
        bed.statefulset("gated", replicas=1, spec=f"{GATE}\n      {WITH_VOLUME}", more_labels=OPT_IN)
        wait(lambda: bed.pods("app=gated") == {"gated-0": ("Running", "cp2")}, "gated-0 runs on cp2")
        label(bed, "cp1", "late-0", value="1")
        bed.statefulset("late", replicas=1, spec=f"schedulerName: test\n      {WITH_VOLUME}")
        wait(lambda: "VolumeUnreachable" in bed.reasons("late-0"), "VolumeUnreachable")
        assert "cannot mount the pod's volume local-0" in bed.pin("--name test why late-0")
        assert bed.pods("app=late") == {"late-0": ("Pending", "")}
        label(bed, "cp2", "late-0", value="2")
        wait(lambda: bed.pods("app=late") == {"late-0": ("Running", "cp2")}, "late-0 runs on its second choice")
    bed.kubectl("delete pv local-0 --ignore-not-found --wait=false")


def gates(bed):
    """Gate mode: no label on a node, no change; no label on the pod, no change."""
    with bed.start("--name test -d --mode gate"):
        bed.statefulset("gated", replicas=2, spec=GATE, more_labels=OPT_IN)
        label(bed, "cp2", "gated-0", "plain-0")
        wait(lambda: bed.pods("app=gated").get("gated-0") == ("Running", "cp2"), "gated-0 runs on cp2")
        wait(lambda: "NoNodeLabelled" in bed.reasons("gated-1"), "gated-1 says why it waits")
        bed.statefulset("plain", replicas=1, spec=GATE)
        time.sleep(3)
        assert bed.pods("app=plain") == {"plain-0": ("Pending", "")}, "a pod that did not opt in is left alone"
        assert bed.pods("app=gated")["gated-1"] == ("Pending", "")
