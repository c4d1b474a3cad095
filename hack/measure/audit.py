"""What the API server was asked, by its own audit log."""

import json
import time
from datetime import datetime
from pathlib import Path

from .bed import Problem, say
from .rights import USER

DIRECTORY = "/var/log/kubernetes-audit"
POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted]
rules:
- level: Metadata
  users: ["USER"]
- level: None
"""
SERVER = "/etc/kubernetes/manifests/kube-apiserver.yaml"


def begin(node, user=USER):
    """Has the API server write down what the agent asks; it restarts for that."""
    directory, manifest = node.path(DIRECTORY), node.path(SERVER)
    directory.mkdir(exist_ok=True)
    (directory / "policy.yaml").write_text(POLICY.replace("USER", user))
    text = manifest.read_text()
    if DIRECTORY in text:
        return
    say("the API server is told to keep an audit log of the agent: about a minute")
    flags = f"    - --audit-policy-file={DIRECTORY}/policy.yaml\n    - --audit-log-path={DIRECTORY}/log\n"
    mount = f"    - mountPath: {DIRECTORY}\n      name: audit\n"
    volume = f"  - hostPath:\n      path: {DIRECTORY}\n      type: Directory\n    name: audit\n"
    for before, new in (("    - kube-apiserver\n", flags), ("    volumeMounts:\n", mount), ("  volumes:\n", volume)):
        if text.count(before) != 1:
            raise Problem(f"{SERVER} of the bed is not as kubeadm writes it: {before.strip()!r}")
        text = text.replace(before, before + new)
    new = manifest.with_name(".audit")
    new.write_text(text)
    new.chmod(0o600)
    new.rename(manifest)
    end = time.monotonic() + 240
    while not (directory / "log").exists():
        if time.monotonic() > end:
            raise Problem("the API server did not come back with its audit log: testbed logs cp1 kube-apiserver")
        time.sleep(1)
    while "ok" not in ready(node):
        if time.monotonic() > end:
            raise Problem("the API server does not get ready: testbed logs cp1 kube-apiserver")
        time.sleep(1)


def ready(node):
    try:
        return node.kubectl("get", "--raw", "/readyz")
    except Problem:
        return ""


class Asked:
    """One request of the agent."""

    def __init__(self, event):
        self.at = datetime.fromisoformat(event["requestReceivedTimestamp"].replace("Z", "+00:00")).timestamp()
        self.verb, self.uri = event["verb"], event["requestURI"]
        status = event.get("responseStatus", {})
        self.code = status.get("code")

    def __str__(self):
        return f"{self.verb} {self.uri}"

    def is_renewal(self):
        """A watch that goes on where the last one ended."""
        return self.verb == "watch"

    def period(self):
        """For how long a watch was asked."""
        words = dict(word.partition("=")[::2] for word in self.uri.partition("?")[2].split("&"))
        return int(words.get("timeoutSeconds") or 0)


def asked(node, since):
    """The agent's requests since then, by the clock of the day."""
    lines = Path(node.path(f"{DIRECTORY}/log")).read_text().splitlines()
    events = (json.loads(line) for line in lines if '"RequestReceived"' in line)
    return [one for one in map(Asked, events) if one.at >= since]
