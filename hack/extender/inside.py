"""What runs inside of a bed: a real Prometheus with a small exporter, fake nodes, a real kube-scheduler of our own."""

import contextlib
import http.server
import json
import pathlib
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from extender.stage import get, post, processor_seconds, program

EXPORTER, PROMETHEUS, OURS, THEIRS, FLOOR = 19100, 19090, 19472, 19482, 19492
MANIFEST = pathlib.Path("/etc/kubernetes/manifests/kube-controller-manager.yaml")
PARKED = pathlib.Path("/etc/kubernetes/kube-controller-manager.yaml")
QPS = 1000


def address(node):
    """The InternalIP of a fake node."""
    number = int(node.rsplit("-", 1)[1])
    return f"10.98.{number // 250}.{number % 250 + 1}"


class Heat(dict):
    """Values by node, as a real Prometheus scrapes them each second: by name, by address and port as exporters have it, and those of workloads."""

    def __init__(self):
        super().__init__()
        # by workload and node
        self.workloads = {}

    def text(self):
        named = "".join(f'node_heat{{node="{node}"}} {value}\n' for node, value in self.items())
        addressed = "".join(f'address_heat{{address="{address(node)}:9100"}} {value}\n' for node, value in self.items())
        own = "".join(f'app_heat{{node="{node}",app="{app}"}} {value}\n' for (app, node), value in list(self.workloads.items()))
        return f"# TYPE node_heat gauge\n{named}# TYPE address_heat gauge\n{addressed}# TYPE app_heat gauge\n{own}"


@contextlib.contextmanager
def prometheus(heat, scratch):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = heat.text().encode()
            self.send_response(200)
            self.send_header("content-type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", EXPORTER), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = scratch / "prometheus.yaml"
    jobs = [{"job_name": "heat", "scrape_interval": "1s", "static_configs": [{"targets": [f"127.0.0.1:{EXPORTER}"]}]}]
    config.write_text(json.dumps({"global": {"evaluation_interval": "1s"}, "scrape_configs": jobs}))
    words = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={scratch}/tsdb", f"--web.listen-address=127.0.0.1:{PROMETHEUS}"]
    try:
        with program(words, PROMETHEUS, "/-/ready", stderr=subprocess.DEVNULL) as process:
            yield process
    finally:
        server.shutdown()


@contextlib.contextmanager
def our_extender(binary, scratch, policy, more="", log=None, tls=None, policies=None, weight=100):
    """`tls`: certificate, key and CA. `policies` instead of the one that `policy` adds to."""
    config = scratch / "extender.yaml"
    policies = policies or f"- {{name: heat, query: node_heat, prefer: lower, range: {{from: 0, to: 1}}{policy}}}\n"
    config.write_text(f"prometheus: {{url: 'http://127.0.0.1:{PROMETHEUS}', interval: 1s}}\npolicies:\n{policies}{more}")
    words = [binary, "run", "--config", config, "--listen", f"127.0.0.1:{OURS}", "--kubeconfig", "/etc/kubernetes/admin.conf", "--weight", weight]
    words += ["--tls-certificate", tls[0], "--tls-key", tls[1]] if tls else []
    with program(words, OURS, ca=tls and tls[2], stderr=log or subprocess.DEVNULL) as process:
        yield process


@contextlib.contextmanager
def scheduler(scratch, port=None, weight=100, name="bench", cache_capable=True, log=None, ca=None, sample=0, ignorable=True):
    """A kube-scheduler for pods with this schedulerName, with the extender on this port or without any; with TLS if a CA is named. It scores this percentage
    of the nodes, or as many as it likes. Without `ignorable` no pod is bound while the extender is away."""
    extender = {"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": weight, "nodeCacheCapable": cache_capable, "ignorable": ignorable, "httpTimeout": "5s"}
    if ca:
        extender |= {"urlPrefix": f"https://127.0.0.1:{port}", "enableHTTPS": True, "tlsConfig": {"caFile": str(ca)}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/admin.conf", "qps": QPS, "burst": QPS},
        "leaderElection": {"leaderElect": False}, "profiles": [{"schedulerName": name}], "extenders": [extender] if port else [],
        "percentageOfNodesToScore": sample,
    }
    file = scratch / "scheduler.yaml"
    file.write_text(json.dumps(config))
    process = subprocess.Popen(["kube-scheduler", f"--config={file}", "--secure-port=0"], stderr=log or subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def start_controllers():
    """A bed that was used before has none, and namespaces need them."""
    if PARKED.exists():
        PARKED.rename(MANIFEST)


def stop_controllers():
    """Without the controller manager nobody taints nodes that have no kubelet."""
    if MANIFEST.exists():
        MANIFEST.rename(PARKED)
        time.sleep(3)


def fake_nodes(api, count, prefix="fake"):
    names = [f"{prefix}-{number:04}" for number in range(count)]

    def make(name):
        api.ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "reason": "Fake", "message": "", "lastHeartbeatTime": now, "lastTransitionTime": now}
        room = {"cpu": "64", "memory": "64Gi", "pods": "1000"}
        api.merge(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [ready], "allocatable": room, "capacity": room, "addresses": [{"type": "InternalIP", "address": address(name)}]}})
        api.merge(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(make, names))
    return names


def delete_fake_nodes(api):
    """Those of an earlier run on this bed; the scheduler would ask for a part of them only."""
    for node in api.ask("GET", "/api/v1/nodes")["items"]:
        if node["metadata"]["name"].startswith(("fake-", "more-")):
            api.ask("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


def delete_pods(api, space):
    api.ask("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")


def node_of(api, space, name):
    return api.ask("GET", f"/api/v1/namespaces/{space}/pods/{name}")["spec"].get("nodeName")


def times_of_binding(api, space, expected, times):
    """Fills `times` with the moment at which a watch shows each pod bound; a watch that breaks off is opened again where it was."""
    version = api.ask("GET", f"/api/v1/namespaces/{space}/pods?limit=1")["metadata"]["resourceVersion"]
    while len(times) < expected:
        connection = api.open()
        connection.request("GET", f"/api/v1/namespaces/{space}/pods?watch=true&resourceVersion={version}")
        stream = connection.getresponse()
        # a busy API server answers with a word instead of a stream
        while len(times) < expected and (line := stream.readline()).startswith(b"{"):
            event = json.loads(line)
            if event.get("type") not in ("ADDED", "MODIFIED"):
                continue
            version = event["object"]["metadata"]["resourceVersion"]
            if event["object"]["spec"].get("nodeName"):
                times.setdefault(event["object"]["metadata"]["name"], time.monotonic())
        connection.close()
        time.sleep(0.05)


def wait(holds, what, seconds=30, state=lambda: ""):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := holds():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"not within {seconds} s: {what} {state()}".strip())


def sees(heat, ca=None):
    """Whether the extender knows all values."""
    body = {"Pod": {"metadata": {"name": "x", "namespace": "x"}}, "NodeNames": list(heat)}
    rows = post(OURS, "/explain?output=json", body, ca)["nodes"]
    return all(row["policies"][0]["value"] == heat[row["node"]] for row in rows)


def metric(name, port=OURS, ca=None):
    """Sum of a metric's series."""
    lines = get(port, "/metrics", ca)[1].splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def asked(port):
    """How many requests of schedulers an extender has answered."""
    if port == OURS:
        return sum(metric(f'schedpatch_extender_requests_total{{verb="{verb}",result="ok"}}') for verb in ("filter", "prioritize"))
    return int(get(port, "/asked")[1])
