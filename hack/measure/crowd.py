"""Pods that nobody runs, to see that the agent does not notice them. Runs in the node; see `fill`.

They are bound to a node without a kubelet and tolerate everything, so that no controller removes them, and they are in
the namespace that the agent watches.
"""

import base64
import http.client
import json
import re
import ssl
import sys
import tempfile
import threading
from pathlib import Path

NODE = "bench-nobody"
NAMESPACE = "kube-system"
LABEL = "schedpatch-bench=crowd"
KUBECONFIG = "/etc/kubernetes/admin.conf"


def fill(node, count):
    """Makes so many of them; those that are there already stay."""
    return node.run("python3", Path(__file__).resolve(), str(count))


def clear(node):
    node.kubectl("-n", NAMESPACE, "delete", "pods", "-l", LABEL, "--grace-period=0", "--force", "--wait=false")
    node.kubectl("delete", "node", NODE, "--ignore-not-found")


def pod(number):
    key, value = LABEL.split("=")
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": f"crowd-{number:05}", "namespace": NAMESPACE, "labels": {key: value},
                     "annotations": {"filler": "x" * 1000}},
        "spec": {"nodeName": NODE, "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0,
                 "containers": [{"name": "nobody", "image": "none.invalid/nobody:1"}]},
    }


def connect():
    text = Path(KUBECONFIG).read_text()
    field = lambda name: re.search(rf"{name}: (\S+)", text).group(1)  # noqa: E731
    context = ssl.create_default_context(cadata=base64.b64decode(field("certificate-authority-data")).decode())
    with tempfile.NamedTemporaryFile() as file:
        for name in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(field(name)))
        file.flush()
        context.load_cert_chain(file.name)
    host, _, port = field("server").removeprefix("https://").partition(":")
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


def create(connection, path, thing):
    connection.request("POST", path, json.dumps(thing), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (201, 409):
        raise SystemExit(f"{path}: {answer.status} {text.decode()[:500]}")


def main(count, threads=6):
    create(connect(), "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    failed = []

    def work(first):
        try:
            connection = connect()
            for number in range(first, count, threads):
                create(connection, f"/api/v1/namespaces/{NAMESPACE}/pods", pod(number))
        except (SystemExit, OSError, http.client.HTTPException) as error:
            failed.append(str(error))

    workers = [threading.Thread(target=work, args=(first,)) for first in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise SystemExit(f"pods could not be made: {failed[0]}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
