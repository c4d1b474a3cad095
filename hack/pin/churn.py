"""Pods, labels and nodes that change all the time, and a judge of every binding."""

import http.client
import json
import threading
import time

from pin.api import create_pods, pod

PODS = 40
# a removed label may count for a second; the news of the binding takes its time on a busy machine
LATEST = 1.0 + 1.0


class Churn:
    """Changes the cluster step by step, and remembers since when a node has not been labelled for a pod."""

    def __init__(self, api, space, nodes, chance):
        self.api, self.space, self.nodes, self.chance = api, space, nodes, chance
        self.labels = {}  # (node, pod): None while it is there, else when it was gone
        self.bound, self.steps, self.failed, self.violations = {}, 0, 0, []
        threading.Thread(target=self.judge, daemon=True).start()
        threading.Thread(target=self.heartbeat, daemon=True).start()

    def key(self, name):
        return f"rf.scheduler.soak.{self.space}/{name}"

    def ask(self, method, path, body=None, kind="application/json"):
        """The answer, or None while the API server is away."""
        try:
            return self.api.ask(method, path, body, kind)
        except (OSError, http.client.HTTPException, RuntimeError, ValueError):
            self.failed += 1
            if hasattr(self.api.local, "connection"):
                self.api.local.connection.close()
                del self.api.local.connection
            return None

    def label(self, node, name, value):
        """Sets or removes a label; of a removal without an answer nobody knows."""
        if value is not None:
            self.labels[node, name] = None
        done = self.ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {self.key(name): value}}}, "application/merge-patch+json")
        if value is None and done:
            self.labels[node, name] = time.monotonic()

    def step(self):
        self.steps += 1
        name, node = f"p-{self.chance.randrange(PODS)}", self.chance.choice(self.nodes)
        what = self.chance.randrange(100)
        pods = f"/api/v1/namespaces/{self.space}/pods"
        if what < 35:
            self.ask("POST", pods, pod(name, "soak"))
        elif what < 55:
            self.ask("DELETE", f"{pods}/{name}?gracePeriodSeconds={self.chance.choice((0, 5))}")
        elif what < 75:
            self.label(node, name, str(self.chance.randrange(3)))
        elif what < 90:
            self.label(node, name, None)
        elif what < 95:
            self.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": self.chance.random() < 0.4}}, "application/merge-patch+json")
        else:
            self.ask("POST", pods, pod(f"foreign-{self.steps}", "nobody"))

    def judge(self):
        """Follows the pods, for ever."""
        while True:
            try:
                connection = self.api.open(timeout=60)
                connection.request("GET", f"/api/v1/namespaces/{self.space}/pods?watch=true")
                stream = connection.getresponse()
                while line := stream.readline():
                    self.seen(json.loads(line)["object"])
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                time.sleep(0.2)

    def seen(self, one):
        meta, node = one["metadata"], one["spec"].get("nodeName")
        if not node:
            return
        if meta["uid"] in self.bound:
            if self.bound[meta["uid"]] != node:
                self.violations.append(f"{meta['name']} moved from {self.bound[meta['uid']]} to {node}")
            return
        self.bound[meta["uid"]] = node
        gone = self.labels.get((node, meta["name"]), 0.0)
        if gone is not None and time.monotonic() - gone > LATEST:
            since = f"{time.monotonic() - gone:.1f} s ago" if gone else "never"
            self.violations.append(f"{meta['name']} was bound to {node}, labelled for it {since}")

    def heartbeat(self):
        """Keeps the fake nodes Ready."""
        while True:
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
            for node in self.nodes:
                path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
                spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now}
                lease = self.ask("PATCH", f"{path}/{node}", {"spec": spec}, "application/merge-patch+json")
                if lease is None or lease.get("kind") == "Status":
                    self.ask("POST", path, {"metadata": {"name": node}, "spec": spec})
            time.sleep(8)

    def summary(self):
        return f"{self.steps} steps, {len(self.bound)} bindings, {self.failed} requests failed"

    def settle(self):
        """Mends everything; returns the pods that still wait though a node is labelled for them."""
        for node in self.nodes:
            while not self.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}}, "application/merge-patch+json"):
                time.sleep(1)
        # no kubelet ends the pods of fake nodes
        self.ask("DELETE", f"/api/v1/namespaces/{self.space}/pods?gracePeriodSeconds=0")
        for number in range(PODS):
            self.ask("POST", f"/api/v1/namespaces/{self.space}/pods", pod(f"p-{number}", "soak"))
            self.label(self.nodes[number % len(self.nodes)], f"p-{number}", "0")
        time.sleep(30)
        pods = self.ask("GET", f"/api/v1/namespaces/{self.space}/pods")["items"]
        return [one["metadata"]["name"] for one in pods if one["spec"]["schedulerName"] == "soak" and not one["spec"].get("nodeName")]

    def burst(self, count):
        """Many bindings, to see what they leave behind in the program."""
        self.ask("DELETE", f"/api/v1/namespaces/{self.space}/pods?gracePeriodSeconds=0")
        for part in range(0, count, 500):
            names = [f"p-{part + number}" for number in range(500)]
            for index, node in enumerate(self.nodes):
                self.labels |= {(node, name): None for name in names[index::len(self.nodes)]}
                labels = {self.key(name): "" for name in names[index::len(self.nodes)]}
                self.ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}}, "application/merge-patch+json")
            create_pods(self.api, self.space, 500, "soak", part)
            time.sleep(10)
            self.ask("DELETE", f"/api/v1/namespaces/{self.space}/pods?gracePeriodSeconds=0")
