"""The API server of a bed, asked from inside; fake nodes and pods on it."""

import base64
import http.client
import json
import pathlib
import re
import ssl
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor


class Api:
    """The API server, asked with the administrator's certificate; one connection per thread."""

    def __init__(self):
        text = pathlib.Path("/etc/kubernetes/admin.conf").read_text()
        part = lambda key: base64.b64decode(re.search(rf"{key}: (\S+)", text)[1])
        self.host = re.search(r"server: https://(\S+)", text)[1]
        with tempfile.TemporaryDirectory() as scratch:
            files = {}
            for key in ("certificate-authority-data", "client-certificate-data", "client-key-data"):
                files[key] = pathlib.Path(scratch) / key
                files[key].write_bytes(part(key))
            self.tls = ssl.create_default_context(cafile=files["certificate-authority-data"])
            self.tls.load_cert_chain(files["client-certificate-data"], files["client-key-data"])
        self.local = threading.local()

    def open(self, timeout=120):
        return http.client.HTTPSConnection(self.host, context=self.tls, timeout=timeout)

    def ask(self, method, path, body=None, kind="application/json"):
        try:
            answer = self.send(method, path, body, kind)
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            # the API server closes connections that were idle for long
            del self.local.connection
            answer = self.send(method, path, body, kind)
        content = json.loads(answer.read())
        if answer.status >= 300 and answer.status != 404:
            raise RuntimeError(f"{method} {path}: {answer.status} {content.get('message')}")
        return content

    def send(self, method, path, body, kind):
        if not hasattr(self.local, "connection"):
            self.local.connection = self.open()
        self.local.connection.request(method, path, json.dumps(body) if body is not None else None, {"content-type": kind})
        return self.local.connection.getresponse()

    def merge(self, path, body):
        return self.ask("PATCH", path, body, "application/merge-patch+json")

    def times_of_binding(self, namespace, expected, times):
        """Fills `times` with the moment at which a watch shows each pod bound."""
        connection = self.open(timeout=120)
        connection.request("GET", f"/api/v1/namespaces/{namespace}/pods?watch=true")
        stream = connection.getresponse()
        while len(times) < expected:
            event = json.loads(stream.readline())
            pod = event["object"]
            if pod["spec"].get("nodeName"):
                times.setdefault(pod["metadata"]["name"], time.monotonic())


def pod(name, scheduler="bench"):
    containers = [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1m"}}}]
    return {"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": containers}}


def create_pods(api, space, count, scheduler="bench", first=0):
    with ThreadPoolExecutor(16) as workers:
        list(workers.map(lambda number: api.ask("POST", f"/api/v1/namespaces/{space}/pods", pod(f"p-{number}", scheduler)), range(first, first + count)))


def fake_nodes(api, count):
    """Nodes without a kubelet: Ready until the controller manager misses their heartbeat."""
    names = [f"fake-{number}" for number in range(count)]
    for name in names:
        api.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}})
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "reason": "Fake", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now}
        room = {"cpu": "64", "memory": "64Gi", "pods": "1000"}
        api.merge(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready], "allocatable": room, "capacity": room}})
    while any(api.ask("GET", f"/api/v1/nodes/{name}")["spec"].get("taints") for name in names):
        time.sleep(0.2)
    return names


def clean(api, namespace, nodes):
    for name in nodes:
        api.ask("DELETE", f"/api/v1/nodes/{name}")
    api.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
    api.ask("DELETE", f"/api/v1/namespaces/{namespace}")
    while api.ask("GET", f"/api/v1/namespaces/{namespace}").get("kind") != "Status":
        time.sleep(0.5)


def namespace(api, name):
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    while api.ask("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default").get("kind") == "Status":
        time.sleep(0.1)
    return name
