"""What is rolled back, upgraded or removed while another image is in place."""

import json
import subprocess
import time

from .cluster import GOOD, IMAGE, MANIFEST, PATCH_PODS, PLAIN, ROOT, SPACE, TESTBED, VERSION, stamped

OLDER = "v1.30.4"

UPGRADE = f"""apiVersion: kubeadm.k8s.io/v1beta4
kind: UpgradeConfiguration
apply:
  kubernetesVersion: {VERSION}
  forceUpgrade: true
  certificateRenewal: false
  etcdUpgrade: false
  ignorePreflightErrors: [all]
  skipPhases: [preflight, upload-config, kubelet-config, bootstrap-token, addon, post-upgrade]
timeouts:
  upgradeManifests: 60s
"""


def unseen(cluster, mode, words):
    """What a preflight cannot see is rolled back."""
    rolled_back(cluster, {"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS}, stamped(label="rank", mode=mode), words)
    return "the preflight passes, the scheduler ends, and what ran before is back"


def unserved(cluster):
    """The program's own serving certificate is missing: a preflight serves nothing, and does not read it."""
    rolled_back(cluster, {"image": IMAGE, "command": "/own-scheduler-serves", "rbac": PATCH_PODS}, GOOD, "/no-such/tls.crt")
    return "the preflight passes, the scheduler ends over its certificate, and what ran before is back"


def rolled_back(cluster, scheduler, config, words):
    digest, attempts = cluster.digest(), cluster.attempts()
    cluster.helm(scheduler, config)
    said = cluster.wait(lambda phase, _, message: phase == "RolledBack" and words in message, f"RolledBack with {words!r}", 240, instead_of=digest)
    assert cluster.attempts() > attempts, "no preflight was begun"
    cluster.wait(lambda *_: cluster.scheduler()[2], "a scheduler that is ready after the rollback", 60)
    return said


def older(cluster):
    """A stock scheduler that has no /livez yet, beside a manifest whose probes ask for it: refused before anything is touched."""
    made = subprocess.run([TESTBED, "programs", "--only", "kube-scheduler", OLDER], check=True, capture_output=True, text=True)
    program, archive = made.stdout.strip().split("=", 1)[1], ROOT / "target/older-scheduler.tar"
    image = f"localhost/kube-scheduler:{OLDER}"
    subprocess.run([TESTBED, "image", archive, image, "/kube-scheduler", f"{program}=/kube-scheduler"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([TESTBED, "load", "--name", cluster.name, archive], check=True, capture_output=True)
    before, digest = cluster.scheduler(), cluster.digest()
    cluster.helm({"image": image, "command": "/kube-scheduler"}, PLAIN)
    too_old = lambda phase, reason, message: phase == "Blocked" and reason == "ImageTooOld" and "/livez" in message
    cluster.wait(too_old, "Blocked/ImageTooOld", 60, instead_of=digest)
    cluster.untouched_since(before)
    assert image not in cluster.run(f"cat {MANIFEST}"), "the older image is in the manifest"
    cluster.helm({}, PLAIN)
    cluster.ready("Ready without the older image", 240)
    return f"{OLDER} would never be ready under probes of {VERSION}, and the running scheduler was not touched"


# Runs in the node beside kubeadm. The preflight that begins now lasts a minute, and so does that of the text in place, which follows;
# while the API server restarts neither counts. Later it could not begin: the scheduler restarts with the API server, and must have
# settled before the agent goes on. What is there when the scheduler's turn comes is listed; nobody but kubeadm writes it meanwhile.
BESIDE_KUBEADM = f"""
number() {{ stat -c %i /etc/kubernetes/manifests/$1.yaml; }}
own=$(number kube-scheduler)
until kubectl -n {SPACE} patch configmap schedpatch --type merge --patch-file /tmp/image-e2e/blocks.json; do sleep 0.2; done
until [ $(number kube-scheduler) != $own ]; do sleep 0.1; done
echo then: $(ls -A /etc/kubernetes/manifests)
"""


def during_upgrade(cluster):
    """kubeadm upgrades the control plane while a preflight runs."""
    values = {"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS}
    cluster.helm(values, GOOD)
    cluster.ready("Ready with the own image", 240, lambda: "own-scheduler" in cluster.run(f"cat {MANIFEST}"))
    cluster.run("cat > /tmp/image-e2e/upgrade.yaml", stdin=UPGRADE)
    blocks = json.dumps({"data": {"config.yaml": stamped(label="rank", mode="block")}})
    cluster.run("cat > /tmp/image-e2e/blocks.json", stdin=blocks)
    beside = cluster.start(BESIDE_KUBEADM)
    try:
        # its status says whether it succeeds
        cluster.run("kubeadm upgrade apply --config /tmp/image-e2e/upgrade.yaml 2>&1")
        seen = beside.communicate(timeout=60)[0]
    finally:
        beside.kill()
    assert "then:" in seen, f"kubeadm did not replace the scheduler's manifest: {seen}"
    assert "schedpatch-preflight-" in seen.split("then:")[1], f"no preflight ran when kubeadm came to the scheduler: {seen}"
    cluster.wait(lambda _, reason, message: reason == "PreflightUnclear", "PreflightUnclear", 200)
    cluster.no_preflight_left()
    cluster.helm({}, PLAIN)
    cluster.ready("Ready after the upgrade", 240, lambda: in_place_of_stock(cluster))
    # kubeadm knows nothing of the bed's probes
    put_original_back(cluster)
    cluster.ready("Ready over the first manifest", 240, lambda: in_place_of_stock(cluster))
    return "the upgrade succeeds with a preflight beside it, and our edit is in place afterwards"


def in_place_of_stock(cluster):
    text = cluster.run(f"cat {MANIFEST}")
    return "schedpatch.io/revision" in text and "own-scheduler" not in text


def put_original_back(cluster):
    original = cluster.run("cat /tmp/image-e2e/original.yaml")
    cluster.run(f"cat > /etc/kubernetes/next.yaml && mv /etc/kubernetes/next.yaml {MANIFEST}", stdin=original)


def next_minor(cluster):
    """The manifest that kubeadm of the next minor release writes, over one of ours with another image."""
    stock = next(line.split()[-1] for line in cluster.run("cat /tmp/image-e2e/original.yaml").splitlines() if "image:" in line)
    newer = f"{stock.rsplit(':', 1)[0]}:v1.37.0"
    cluster.run(f"ctr -n k8s.io images tag --force {stock} {newer}")
    cluster.helm({"image": IMAGE, "command": "/own-scheduler"}, PLAIN)
    cluster.ready("Ready with the own image", 240, lambda: "own-scheduler" in cluster.run(f"cat {MANIFEST}"))
    upgraded = cluster.run("cat /tmp/image-e2e/original.yaml").replace(stock, newer)
    cluster.run(f"cat > {MANIFEST}.new && mv {MANIFEST}.new {MANIFEST}".replace(f"{MANIFEST}.new", "/etc/kubernetes/next.yaml"), stdin=upgraded)
    said = cluster.wait(lambda phase, _, message: phase == "Blocked" and "to 1.37" in message, "Blocked, with both releases", 120)
    assert cluster.run(f"cat {MANIFEST}") == upgraded, "the upgraded manifest was changed"
    events = cluster.run("kubectl get events -A --field-selector involvedObject.kind=Node -o json")
    assert "is of another release" in events, "no event says so"
    put_original_back(cluster)
    cluster.ready("Ready with the own image again", 240, lambda: "own-scheduler" in cluster.run(f"cat {MANIFEST}"))
    return f"the upgraded scheduler runs, phase {said[0]}, reason {said[1]}; with an event"


def gone(cluster):
    """The original's image was removed from the node; an uninstall waits until it is back."""
    cluster.helm({"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS}, GOOD)
    cluster.ready("Ready with the own image", 240, lambda: "own-scheduler" in cluster.run(f"cat {MANIFEST}"))
    stock = next(line.split()[-1] for line in cluster.run("cat /tmp/image-e2e/original.yaml").splitlines() if "image:" in line)
    cluster.run(f"ctr -n k8s.io images tag --force {stock} localhost/kept:1")
    digests = [line.split()[0] for line in cluster.run("ctr -n k8s.io images ls").splitlines() if "kube-scheduler" in line and "kept" not in line]
    cluster.run("ctr -n k8s.io images rm " + " ".join(digests))
    before = cluster.scheduler()
    uninstall = cluster.start(f"helm uninstall schedpatch -n {SPACE} --wait --timeout 8m")
    said = cluster.wait(lambda phase, reason, _: reason == "PreflightObstructed", "PreflightObstructed", 120)
    time.sleep(5)
    assert cluster.scheduler() == before, "the running scheduler was touched"
    cluster.run(f"ctr -n k8s.io images tag --force localhost/kept:1 {stock}")
    told = uninstall.communicate(timeout=480)[0]
    assert uninstall.returncode == 0, told
    return f"told ({said[1]}), and uninstalled once the image is back"


def removal(cluster):
    cluster.run(f"helm uninstall schedpatch -n {SPACE} --wait --timeout 8m")
    return "the manifest is byte for byte what it was"


def is_original(cluster, original):
    assert cluster.run(f"cat {MANIFEST}") == original, "the manifest is not what it was"
    cluster.no_preflight_left()
