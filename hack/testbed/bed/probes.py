"""Quick probes: a component is Ready as soon as it answers, through kubeadm's own patches of its static pods."""

import json
from pathlib import Path

from .watch import CONTROL_PLANE

DIRECTORY = "/etc/kubernetes/patches"
# kubeadm asks for the first time after 10 s, then every 10 s, for 4 minutes. Only the startup probe makes a restarted
# component wait: kubeadm's readiness probe asks every second already (v1.30 has none), its liveness probe only ends.
STARTUP = {"initialDelaySeconds": 0, "periodSeconds": 1, "failureThreshold": 240}


def write_patches():
    """Runs inside a node, before kubeadm."""
    directory = Path(DIRECTORY)
    directory.mkdir(parents=True, exist_ok=True)
    for name in CONTROL_PLANE:
        patch = {"spec": {"containers": [{"name": name, "startupProbe": STARTUP}]}}
        (directory / f"{name}+strategic.json").write_text(json.dumps(patch, indent=1) + "\n")
