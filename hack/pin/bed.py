"""A bed with schedpatch-pin: what the checks do to it and see of it."""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTBED = ROOT / "hack/testbed/testbed"
# the end of its input, or a signal's name, ends the program: nsenter passes no signals on
UNTIL_TOLD = '"$@" & program=$!; read -r word; kill -"${word:-TERM}" $program; wait $program'
STATEFULSET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: NAME}
spec:
  serviceName: NAME
  replicas: REPLICAS
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, MORE_LABELS}}
    spec:
      SPEC
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "IMAGE", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: CPU}}}]
"""


class Bed:
    def __init__(self, name, program, nodes):
        self.name, self.program = name, program
        self.nodes = [f"cp{number}" for number in range(1, nodes + 1)]
        self.image = [line for line in self.run("ctr -n k8s.io images ls -q").splitlines() if "pause" in line][0]

    def run(self, command, node="cp1", stdin=None, check=True):
        words = command if isinstance(command, list) else ["sh", "-c", command]
        done = subprocess.run([TESTBED, "exec", "--name", self.name, node, *words], input=stdin, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"{command} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def kubectl(self, command, **more):
        return self.run(f"kubectl {command}", **more)

    def pin(self, flags, env="SCHED_PROMETHEUS=false", **more):
        return self.run(f"env {env} {self.program} {flags} 2>&1", **more)

    def start(self, flags, env="SCHED_PROMETHEUS=false"):
        return Background(self, f"env {env} {self.program} {flags}")

    def statefulset(self, name, replicas=3, spec="schedulerName: test", more_labels="tier: db", cpu="10m"):
        text = STATEFULSET.replace("NAME", name).replace("REPLICAS", str(replicas)).replace("SPEC", spec)
        text = text.replace("MORE_LABELS", more_labels).replace("IMAGE", self.image).replace("CPU", cpu)
        self.kubectl("apply -f -", stdin=text)

    def pods(self, selector):
        """Name, phase and node of pods."""
        items = json.loads(self.kubectl(f"get pods -l {selector} -o json"))["items"]
        return {i["metadata"]["name"]: (i["status"]["phase"], i["spec"].get("nodeName", "")) for i in items}

    def reasons(self, pod):
        items = json.loads(self.kubectl("get events -o json"))["items"]
        return {i["reason"] for i in items if i["involvedObject"]["name"] == pod}

    def clean(self):
        self.kubectl("delete statefulset,pod,pvc --all --force --grace-period=0 --ignore-not-found 2>/dev/null", check=False)
        self.kubectl("delete events --all >/dev/null", check=False)
        for node in json.loads(self.kubectl("get nodes -o json"))["items"]:
            labels = [key for key in node["metadata"]["labels"] if key.startswith("rf.scheduler.")]
            patch = json.dumps({"metadata": {"labels": {key: None for key in labels}}})
            if labels:
                self.run(["kubectl", "patch", "node", node["metadata"]["name"], "--type=merge", "-p", patch])
        wait(lambda: not self.kubectl("get pods -o name").strip(), "no pods are left")


class Background:
    def __init__(self, bed, command):
        words = [TESTBED, "exec", "--name", bed.name, "cp1", "sh", "-c", UNTIL_TOLD, "sh", *command.split()]
        self.log = open(f"/tmp/pin-e2e-{os.getpid()}-{time.monotonic_ns()}.log", "w+")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log, text=True)

    def said(self):
        return pathlib.Path(self.log.name).read_text()

    def stop(self, signal="TERM"):
        if self.process.poll() is None:
            self.process.communicate(f"{signal}\n", timeout=30)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.stop()
        if error:
            print(f"-- log of schedpatch-pin:\n{self.said()[-3000:]}", file=sys.stderr)
        os.unlink(self.log.name)


def wait(holds, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.3)
    raise AssertionError(f"not within {seconds} s: {what}")
