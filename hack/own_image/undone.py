"""What is rolled back, upgraded or removed while another image is in place."""

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
    cluster.helm({"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS}, stamped(label="rank", mode=mode))
    said = cluster.wait(lambda phase, *_: phase == "RolledBack", "RolledBack", 240)
    assert words in said[2], said
    assert cluster.scheduler()[2], "no scheduler is ready after the rollback"
    return "the preflight passes, the scheduler ends, and what ran before is back"


def older(cluster):
    """A stock scheduler that has no /livez yet, beside a manifest whose probes ask for it: never ready, so it is rolled back."""
    made = subprocess.run([TESTBED, "programs", "--only", "kube-scheduler", OLDER], check=True, capture_output=True, text=True)
    program, archive = made.stdout.strip().split("=", 1)[1], ROOT / "target/older-scheduler.tar"
    image = f"localhost/kube-scheduler:{OLDER}"
    subprocess.run([TESTBED, "image", archive, image, "/kube-scheduler", f"{program}=/kube-scheduler"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([TESTBED, "load", "--name", cluster.name, archive], check=True, capture_output=True)
    cluster.helm({"image": image, "command": "/kube-scheduler"}, PLAIN)
    said = cluster.wait(lambda phase, *_: phase == "RolledBack", "RolledBack", 300)
    assert "not ready after 90 s" in said[2], said
    assert image not in cluster.run(f"cat {MANIFEST}"), "the older image is still in the manifest"
    cluster.wait(lambda *_: cluster.scheduler()[2], "ready again", 60)
    cluster.helm({}, PLAIN)
    cluster.ready("Ready without the older image", 240)
    return f"{OLDER} is never ready under probes of {VERSION}, and what ran before is back"


def during_upgrade(cluster):
    """kubeadm upgrades the control plane while a preflight runs."""
    plain = lambda: "own-scheduler" not in cluster.run(f"cat {MANIFEST}")
    cluster.helm({}, PLAIN)
    cluster.ready("Ready with a plain configuration", 240, plain)
    cluster.run("mkdir -p /tmp/image-e2e && cat > /tmp/image-e2e/upgrade.yaml", stdin=UPGRADE)
    cluster.helm({"image": IMAGE, "command": "/own-scheduler", "rbac": PATCH_PODS}, stamped(label="rank", mode="block"))
    cluster.wait(lambda phase, *_: phase == "Preflight", "Preflight", 60)
    said = cluster.run("kubeadm upgrade apply --config /tmp/image-e2e/upgrade.yaml 2>&1")
    cluster.wait(lambda _, reason, message: reason == "PreflightUnclear", "PreflightUnclear", 200)
    cluster.no_preflight_left()
    cluster.helm({}, PLAIN)
    cluster.ready("Ready after the upgrade", 240, lambda: "schedpatch.io/revision" in cluster.run(f"cat {MANIFEST}"))
    assert "SUCCESS" in said or "success" in said, said
    return "the upgrade succeeds, and our edit is in place afterwards"


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
    cluster.run("cat > /etc/kubernetes/next.yaml && mv /etc/kubernetes/next.yaml " + MANIFEST, stdin=cluster.run("cat /tmp/image-e2e/original.yaml"))
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
