"""What the API shows of a node and its control plane. Runs inside the node, where kubectl asks its own API server."""

import subprocess
from datetime import datetime

from .watch import CONTROL_PLANE


def are_ready(*what):
    """A check that all these are Ready. kubectl waits, ends when something is not there yet, and is started again."""
    waiting = None

    def check():
        nonlocal waiting
        if waiting is None:
            command = ["kubectl", "-n", "kube-system", "wait", "--for=condition=Ready", *what, "--timeout=60s"]
            waiting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        status = waiting.poll()
        if status:
            waiting = None
        return status == 0

    return check


def are_all_shown(node):
    return len(starts(node)) == len(CONTROL_PLANE)


def have_started_since(moment, node):
    """Until the kubelet of a lost node reports, the API shows its pods as they were before."""
    times = [datetime.fromisoformat(text).timestamp() if text else 0 for text in starts(node)]
    return len(times) == len(CONTROL_PLANE) and min(times) >= int(moment)


def starts(node):
    """When the container of each mirror pod that there is was started; empty where it was not."""
    template = "{range .items[*]}{.metadata.name}={.status.containerStatuses[0].state.running.startedAt} {end}"
    shown = subprocess.run(
        ["kubectl", "-n", "kube-system", "get", "pods", "-o", f"jsonpath={template}"],
        capture_output=True,
        text=True,
        check=False,
    )
    times = dict(word.split("=") for word in shown.stdout.split())
    names = [f"{name}-{node.name}" for name in CONTROL_PLANE]
    return [times[name] for name in names if name in times]
