"""Images that the scheduler accepts: one that is there, one that is pulled slowly, one that is not root."""

import json
import os
import subprocess
import time

from . import registry
from .cluster import GOOD, IMAGE, MANIFEST, PATCH_PODS, PLAIN, ROOT, SPACE, TESTBED, VERSION, stamped


def good(cluster):
    before, digest = cluster.scheduler(), cluster.digest()
    began = time.monotonic()
    cluster.helm({"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS, "needs": ["patch pods"]}, GOOD)
    ready = lambda phase, *_: phase == "Ready" and "own-scheduler" in cluster.run(f"cat {MANIFEST}")
    cluster.wait(ready, "Ready with the own image", 240, instead_of=digest)
    after = cluster.scheduler()
    assert before[0] != after[0] and after[1] != before[1], f"the same image runs: {before} {after}"
    image = cluster.run("kubectl get node cp1 -o jsonpath='{.metadata.annotations.schedpatch\\.io/scheduler-image}'")
    assert image == after[1], f"the node says {image}, the pod {after[1]}"
    cluster.run("kubectl run stamped --image=a --restart=Never")
    stamp = "kubectl get pod stamped -o jsonpath='{.metadata.annotations}'"
    end = time.monotonic() + 30
    while "own-scheduler.example/stamp" not in cluster.run(stamp):
        assert time.monotonic() < end, f"the pod has no stamp: {cluster.run(stamp)}"
        time.sleep(1)
    cluster.run("kubectl delete pod stamped --grace-period=0 --force")
    cluster.no_preflight_left()
    return f"Ready after {time.monotonic() - began:.0f} s, pods are stamped, the image's digest is shown"


def hangs(cluster):
    """What makes the plugin hang, beside the same image: the agent tries what is in place too, and that ends."""
    values = {"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS, "needs": ["patch pods"]}
    cluster.helm(values, GOOD)
    cluster.ready("Ready with the own image", 240, lambda: "own-scheduler" in cluster.run(f"cat {MANIFEST}"))
    before, began = cluster.scheduler(), time.monotonic()
    cluster.helm(values, stamped(label="rank", mode="block"))
    unclear = lambda _, reason, message: reason == "PreflightUnclear" and "that of the text in place ends" in message
    cluster.wait(unclear, "PreflightUnclear", 200)
    told = time.monotonic() - began
    cluster.untouched_since(before)
    cluster.helm(values, GOOD)
    cluster.ready("Ready again", 60)
    assert cluster.scheduler() == before, "the scheduler was restarted for nothing"
    return f"told after {told:.0f} s, and the scheduler was not touched"


def verify(cluster):
    asks = cluster.run(f"helm get hooks schedpatch -n {SPACE}")
    assert "SCHEDPATCH_SCHEDULER_NEED" in asks, "helm test asks for no right"
    said = cluster.run(f"helm test schedpatch -n {SPACE} --timeout 3m --hide-notes")
    assert "Phase:          Succeeded" in said, said
    program = f"KUBECONFIG=/etc/kubernetes/admin.conf {ROOT}/target/debug/schedpatch verify --two-nodes"
    said = cluster.run(program)
    assert "scheduled   on cp1" in said and "leader      cp1_" in said and "scoring     cannot be seen" in said, said
    said = cluster.run(f"{program} --need 'patch pods' --need 'delete nodes' -o json", check=False)
    found = json.loads(said)
    assert found["scheduled"] and len(found["missing"]) == 1 and "delete nodes" in found["missing"][0], said
    said = cluster.run(f"{program} --scheduler-name nobody --timeout 3s", check=False)
    assert "scheduled   no: no scheduler has looked at it" in said, said
    assert "schedpatch-verify" not in cluster.run("kubectl get pods -A -o name"), "a test pod is left"
    return f"helm test passes; a pod was bound after {found['seconds']:.1f} s; what is missing is named"


def slow(cluster):
    """An image whose pull takes longer than a preflight may run."""
    # with a file of its own, since containerd does not pull a layer that it has
    archive, mark, seconds = ROOT / "target/slow-scheduler.tar", ROOT / "target/slow-mark", 130
    mark.write_bytes(os.urandom(64))
    made = [TESTBED, "image", archive, IMAGE, "/own-scheduler", f"{ROOT}/target/own-scheduler=/own-scheduler", f"{mark}=/mark"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    with registry.served(cluster.name, archive, seconds) as address:
        before, began = cluster.scheduler(), time.monotonic()
        cluster.helm({"image": f"{address}/own-scheduler:{VERSION}", "command": "/own-scheduler", "rbac": PATCH_PODS}, GOOD)
        cluster.wait(lambda phase, *_: phase == "Preflight", "Preflight", 60)
        time.sleep(seconds - 20)
        now, says = cluster.scheduler(), cluster.node()
        assert now == before, f"another scheduler runs while the image is pulled: before {before}, now {now}; the node says {says}"
        cluster.ready("Ready with the pulled image", 240, lambda: address in cluster.run(f"cat {MANIFEST}"))
    cluster.no_preflight_left()
    return f"Ready after {time.monotonic() - began:.0f} s, of which the pull took {seconds}; the old scheduler ran meanwhile"


def not_root(cluster):
    """An image that runs as another user, with a file beside its configuration."""
    cluster.run("chown 65532 /etc/kubernetes/scheduler.conf")
    try:
        values = {"image": IMAGE, "command": "/own-scheduler", "runAsUser": 65532, "rbac": PATCH_PODS}
        cluster.helm(values, GOOD, "--set-string", "config.beside\\.txt=secret")
        cluster.ready("Ready as another user", 240, lambda: "runAsUser: 65532" in cluster.run(f"cat {MANIFEST}"))
        revision = cluster.run("kubectl get node cp1 -o jsonpath='{.metadata.annotations.schedpatch\\.io/revision}'")
        files = cluster.run(f"cd /var/lib/schedpatch/revisions/{revision} && stat -c '%n %u:%g %a' *").splitlines()
        beside = next(line for line in files if line.startswith("beside.txt"))
        assert beside == "beside.txt 65532:0 640", files
    finally:
        # the kubeconfig is read at the start only, and the next case runs as root
        cluster.helm({}, PLAIN)
        cluster.ready("Ready as root", 240, lambda: "own-scheduler" not in cluster.run(f"cat {MANIFEST}"))
        cluster.run("chown 0 /etc/kubernetes/scheduler.conf")
    return f"runs as user 65532, which with root alone may read what is beside its configuration ({beside})"
