"""What goes wrong in a node while it comes up: processes that end, containers that end, pods that cannot start."""

import json
import re
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

from . import containerd

# A container that could not be made; one that ran and ended is seen by containerd's events.
REFUSED = re.compile(
    r'"Error syncing pod, skipping" err="(failed to \\"(?:StartContainer|CreatePodSandbox)\\".*)"'
    r' pod="kube-system/([a-z-]+)-cp\d"'
)
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


class Watch:
    """Collects what happens; `failure` is set once, and is final."""

    def __init__(self, node, state, warn):
        self.node, self.state, self.warn = node, state, warn
        self.failure = None
        self.stopped = False
        self.ended = Counter()
        self.refused = Counter()
        self.kubelet_log = node.log / "kubelet.log"
        self.read_before = self.kubelet_log.stat().st_size if self.kubelet_log.exists() else 0  # of an earlier life
        self.events = subprocess.Popen(
            containerd.ctr(state, "events"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for follow in (self.follow_containers, self.follow_kubelet):
            threading.Thread(target=follow, daemon=True).start()

    def fail(self, what, log):
        if self.failure is None:
            self.failure = f"{what}:\n{log}"

    def follow_containers(self):
        for line in self.events.stdout:
            if " /tasks/exit " not in line:
                continue
            event = json.loads(line[line.index("{") :])
            if event["id"] != event["container_id"]:
                continue  # a probe's command, not the container
            labels = self.labels(event["id"])
            if labels.get("io.cri-containerd.kind") == "container":
                self.container_ended(labels, event.get("exit_status", 0))

    def labels(self, container):
        shown = subprocess.run(
            containerd.ctr(self.state, "containers", "info", container), capture_output=True, text=True, check=False
        )
        return json.loads(shown.stdout).get("Labels", {}) if shown.returncode == 0 else {}

    def container_ended(self, labels, status):
        name = labels.get("io.kubernetes.container.name", "")
        if labels.get("io.kubernetes.pod.namespace") != "kube-system" or name not in CONTROL_PLANE:
            return
        self.ended[name] += 1
        log = pod_log_tail(self.node.log, labels["io.kubernetes.pod.name"], name)
        what = f"{name} ended with status {status}"
        if self.ended[name] == 1:
            # The kubelet starts it again, and a slow machine may need that; twice is no accident.
            self.warn(f"{what}, the kubelet will start it again; the end of its log:\n{log}")
        else:
            self.fail(f"{what}, for the second time; the end of its log", log)

    def follow_kubelet(self):
        """A container that cannot even be made shows only in the kubelet's log."""
        while not self.kubelet_log.exists():
            time.sleep(0.1)
        with open(self.kubelet_log, errors="replace") as lines:
            lines.seek(self.read_before)
            while self.failure is None and not self.stopped:
                line = lines.readline()
                if not line:
                    time.sleep(0.1)
                    continue
                found = REFUSED.search(line)
                if found and "CrashLoopBackOff" not in found[1]:
                    self.refused[found[2]] += 1
                    if self.refused[found[2]] == 2:
                        self.fail(f"{found[2]} cannot be started; the kubelet says", found[1].replace('\\"', '"'))

    def stop(self):
        self.stopped = True
        self.events.kill()
        self.events.wait()


def pod_log_tail(log, pod, container, lines=15):
    """The last lines of the newest log of a container, without the runtime's prefix."""
    files = sorted(Path(log, "pods").glob(f"*_{pod}_*/{container}/*.log"), key=lambda f: f.stat().st_mtime)
    for file in reversed(files):
        text = containerd.tail(file, lines)
        if text:
            return "\n".join(re.sub(r"^\S+ (stdout|stderr) [FP] ", "", line) for line in text.splitlines())
    return "(nothing)"
