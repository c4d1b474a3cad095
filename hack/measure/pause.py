"""Creates a pod every 200 ms and sees when each is bound: how long was nothing scheduled? Runs in a node; see `meter`.

The pods are for a node without a kubelet, so that nobody runs them, and are deleted as soon as they are bound. Once the
first is bound, a line says so; the end of the input ends the measurement, and its result is printed as JSON.
"""

import http.client
import json
import queue
import secrets
import sys
import threading
import time

from .crowd import connect

PERIOD = 0.2
# how long the first pod may wait for its binding (the lease of a scheduler that was lost lasts 15 s), and how long those
# may wait that were created at the end
BEGIN, PATIENCE = 60, 60
# a request that takes longer failed; a watch without news is opened again after so long
TIMEOUT, SILENCE = 10, 60
FAILURES = (OSError, http.client.HTTPException, ValueError)
STARTED = "scheduling"


class Pods:
    """The stream of pods: when each was created and bound, by the monotonic clock."""

    def __init__(self):
        self.name = f"pause-{secrets.token_hex(4)}"  # of the namespace and of the node
        self.created, self.bound, self.failed, self.breaks = {}, {}, 0, 0
        self.to_delete, self.is_over, self.local = queue.Queue(), threading.Event(), threading.local()
        self.prepare()
        self.creator = self.start(self.create)
        self.start(self.watch)
        self.start(self.delete)

    def start(self, work):
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        return thread

    def ask(self, method, path, body=None):
        """Status and content of the answer; each thread has a connection of its own."""
        if not hasattr(self.local, "connection"):
            self.local.connection = connect()
            self.local.connection.timeout = TIMEOUT
        try:
            text = json.dumps(body) if body is not None else None
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            self.local.connection.request(method, path, text, {"content-type": kind})
            answer = self.local.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except FAILURES:
            self.local.connection.close()
            raise

    def demand(self, method, path, body=None):
        status, content = self.ask(method, path, body)
        if status >= 300:
            raise SystemExit(f"{method} {path}: {status} {content.get('message')}")

    def prepare(self):
        """Only our pods go to this node: its taint keeps others away, and no controller evicts what tolerates all."""
        taint = {"key": "schedpatch.io/pause", "effect": "NoSchedule"}
        node = {"metadata": {"name": self.name, "labels": {"schedpatch.io/pause": self.name}}, "spec": {"taints": [taint]}}
        room = {"cpu": "64", "memory": "64Gi", "pods": "10000"}
        self.demand("POST", "/api/v1/nodes", node)
        self.demand("PATCH", f"/api/v1/nodes/{self.name}/status", {"status": {"allocatable": room, "capacity": room}})
        self.demand("POST", "/api/v1/namespaces", {"metadata": {"name": self.name}})
        end = time.monotonic() + TIMEOUT
        while self.ask("GET", f"/api/v1/namespaces/{self.name}/serviceaccounts/default")[0] != 200:
            if time.monotonic() > end:
                raise SystemExit("the controller manager does not make a service account for a new namespace")
            time.sleep(0.1)

    def pod(self, name):
        return {
            "metadata": {"name": name},
            "spec": {"nodeSelector": {"schedpatch.io/pause": self.name}, "tolerations": [{"operator": "Exists"}],
                     "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False,
                     "containers": [{"name": "nobody", "image": "none.invalid/nobody:1"}]},
        }

    def create(self):
        due, number = time.monotonic(), 0
        while not self.is_over.is_set():
            name, number, asked = f"p-{number:06}", number + 1, time.monotonic()
            try:
                status, _ = self.ask("POST", f"/api/v1/namespaces/{self.name}/pods", self.pod(name))
            except FAILURES:
                status = None
            if status == 201:
                self.created[name] = asked
            else:
                self.failed += 1
            due = max(due + PERIOD, time.monotonic())  # what a slow answer cost is not made up for
            self.is_over.wait(due - time.monotonic())

    def watch(self):
        """A watch that breaks off is opened again where it was; what was bound meanwhile counts as bound late."""
        version = ""
        while True:
            is_open = False
            try:
                connection = connect()
                connection.timeout = SILENCE
                connection.request("GET", f"/api/v1/namespaces/{self.name}/pods?watch=true&resourceVersion={version}")
                stream = connection.getresponse()
                is_open = stream.status == 200
                for line in stream:
                    event = json.loads(line)
                    if event["type"] == "ERROR":  # the version is too old
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.seen(event)
            except (*FAILURES, KeyError):
                pass
            self.breaks += is_open
            time.sleep(0.1)

    def seen(self, event):
        name = event["object"]["metadata"]["name"]
        if event["type"] != "DELETED" and event["object"]["spec"].get("nodeName") and name not in self.bound:
            self.bound[name] = time.monotonic()
            self.to_delete.put(name)

    def delete(self):
        while True:
            name = self.to_delete.get()
            try:
                self.ask("DELETE", f"/api/v1/namespaces/{self.name}/pods/{name}")
            except FAILURES:
                self.to_delete.put(name)
                time.sleep(0.2)

    def end(self):
        """Creates no more, waits for the last bindings, removes everything; returns the result."""
        self.is_over.set()
        self.creator.join()
        over = time.monotonic()
        while self.created.keys() - self.bound.keys() and time.monotonic() < over + PATIENCE:
            time.sleep(0.05)
        found = result(dict(self.created), dict(self.bound), over, time.monotonic())
        self.remove()
        return {**found, "not_created": self.failed, "watch_breaks": self.breaks}

    def remove(self):
        self.is_over.set()
        end = time.monotonic() + TIMEOUT
        left = [f"namespaces/{self.name}/pods?gracePeriodSeconds=0", f"namespaces/{self.name}", f"nodes/{self.name}"]
        while left and time.monotonic() < end:
            try:
                self.ask("DELETE", f"/api/v1/{left[0]}")
                left.pop(0)
            except FAILURES:
                time.sleep(0.2)  # the API is away, or closed a connection that was idle for long
        if left:
            print(f"the API does not answer; left in the cluster: {', '.join(left)}", file=sys.stderr)


def result(created, bound, over, now):
    """Latencies, and the longest pauses between two bindings. Times without any at the beginning and at the end are pauses
    too; `over` is when the last pod was to be created."""
    waits = sorted(max(0.0, bound[name] - at) for name, at in created.items() if name in bound)
    missing = created.keys() - bound.keys()
    begin = min(created.values(), default=over)
    times = sorted([begin, *bound.values(), now if missing else over])
    pauses = sorted(((after - before, before - begin) for before, after in zip(times, times[1:])), reverse=True)
    return {
        "pods": len(created), "never_bound": len(missing),
        "latency_p50_s": round(waits[len(waits) // 2], 3) if waits else None,
        "latency_max_s": round(waits[-1], 3) if waits else None,
        "pauses": [{"seconds": round(length, 3), "at": round(at, 1)} for length, at in pauses[:3]],
    }


def main():
    pods = Pods()
    end = time.monotonic() + BEGIN
    while not pods.bound:
        if time.monotonic() > end:
            pods.remove()
            sys.exit(f"no pod was bound in {BEGIN} s")
        time.sleep(0.05)
    print(STARTED, flush=True)
    sys.stdin.read()
    print(json.dumps(pods.end()), flush=True)


if __name__ == "__main__":
    try:
        main()
    except FAILURES as error:
        sys.exit(f"the API server does not answer: {error}")
