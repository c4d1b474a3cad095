"""What k3s writes on its own Node: labels, addresses, and the arguments that it was started with."""

import base64
import hashlib
import json
import subprocess
import threading
import time

from . import arguments

LABELS = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/etcd")


def keep_annotated(server, words):
    """In the background, until the API took it; k3s reads its files again for it."""
    threading.Thread(target=annotate, args=(server, words), daemon=True).start()


def annotate(server, words):
    run(server, "create", "clusterrolebinding", "kubeadm:cluster-admins", "--clusterrole=cluster-admin", *ADMINS)
    while True:
        try:
            shown = json.dumps(arguments.shown(arguments.merged(words)), separators=(",", ":"))
        except arguments.Fatal as error:
            return print(f"cannot annotate the node: {error}", flush=True)
        digest = base64.b32encode(hashlib.sha256(shown.encode()).digest()).decode()
        labels = [f"{name}=true" for name in LABELS[: 2 if server.has_members else 1]]
        annotations = {
            "k3s.io/node-args": shown,
            "k3s.io/node-config-hash": digest,
            "k3s.io/node-env": "{}",
            "k3s.io/hostname": server.name,
            "k3s.io/internal-ip": server.address,
        }
        words_of_both = [f"{name}={value}" for name, value in annotations.items()]
        if run(server, "label", "--overwrite", "node", server.name, *labels) and run(
            server, "annotate", "--overwrite", "node", server.name, *words_of_both
        ):
            return None
        time.sleep(0.5)


ADMINS = ("--group=kubeadm:cluster-admins",)  # the API server's own certificate, with which it asks kubelets


def run(server, *words):
    kubeconfig = f"{server.data}/server/cred/admin.kubeconfig"
    line = ["kubectl", "--kubeconfig", kubeconfig, "--request-timeout=10s", *words]
    return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
