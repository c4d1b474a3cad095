"""A bed with the agent on it, and what is wanted of the scheduler."""

import json
import shlex
import subprocess
import time

from extender.stage import ROOT, TESTBED

VERSION = "v1.36.4"
SPACE = "schedpatch"
IMAGE = f"localhost/own-scheduler:{VERSION}"
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
PLAIN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n"
PATCH_PODS = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}]


def stamped(**arguments):
    """A configuration with the plugin and these arguments."""
    return PLAIN + "  plugins:\n    multiPoint:\n      enabled: [{name: Stamp}]\n  pluginConfig:\n  - name: Stamp\n    args: " + json.dumps(arguments) + "\n"


GOOD = stamped(label="rank")


class Cluster:
    def __init__(self, name):
        self.name = name

    def run(self, command, check=True, stdin=None):
        done = subprocess.run([TESTBED, "exec", "--name", self.name, "cp1", "sh", "-c", command], input=stdin, capture_output=True, text=True)
        if check and done.returncode:
            raise SystemExit(f"{command} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def helm(self, scheduler, config, *more):
        values = {"config": {"config.yaml": config}, "scheduler": scheduler, "verifyTimeout": "90s"}
        self.run("mkdir -p /tmp/image-e2e && cat > /tmp/image-e2e/values.yaml", stdin=json.dumps(values))
        self.run(f"helm upgrade --install schedpatch {ROOT}/charts/schedpatch -n {SPACE} --create-namespace -f /tmp/image-e2e/values.yaml {shlex.join(more)}")

    def annotations(self, *keys):
        annotations = json.loads(self.run("kubectl get node cp1 -o json"))["metadata"].get("annotations", {})
        return [annotations.get(f"schedpatch.io/{key}", "") for key in keys]

    def node(self):
        """Phase, reason and message of the node."""
        return self.annotations("phase", "reason", "message")

    def digest(self):
        """The digest of what is wanted, as the node says it."""
        return self.annotations("digest")[0]

    def attempts(self):
        """How many preflights were begun on the node."""
        journal = self.run("cat /var/lib/schedpatch/state.json", check=False) or "{}"
        return json.loads(journal).get("preflights", {}).get("attempts", 0)

    def preflights(self):
        """The programs of the preflights whose containers run."""
        pods = json.loads(self.run("kubectl -n kube-system get pods -o json"))["items"]
        runs = lambda pod: any("running" in one.get("state", {}) for one in pod["status"].get("containerStatuses", []))
        own = [pod for pod in pods if pod["metadata"]["name"].startswith("schedpatch-preflight-") and runs(pod)]
        return [pod["spec"]["containers"][0]["command"][0] for pod in own]

    def lease(self):
        """Who leads, and how often that has changed; and the namespaces and names of all Leases."""
        leases = json.loads(self.run("kubectl get leases -A -o json"))["items"]
        key = lambda lease: (lease["metadata"]["namespace"], lease["metadata"]["name"])
        led = next(lease["spec"] for lease in leases if key(lease) == ("kube-system", "kube-scheduler"))
        return (led["holderIdentity"], led.get("leaseTransitions", 0)), [key(lease) for lease in leases]

    def scheduler(self):
        """Container and image of the scheduler that runs."""
        pods = json.loads(self.run("kubectl -n kube-system get pods -l component=kube-scheduler -o json"))["items"]
        status = pods[0]["status"].get("containerStatuses", [{}])[0]
        return status.get("containerID"), status.get("imageID"), status.get("ready")

    def wait(self, fits, what, seconds, instead_of=None):
        """Waits for a state of the node that fits; not for one of `instead_of`, the digest of what was wanted before."""
        end, seen = time.monotonic() + seconds, None
        while time.monotonic() < end:
            *seen, digest = self.annotations("phase", "reason", "message", "digest")
            if digest != instead_of and fits(*seen):
                return seen
            time.sleep(0.3)
        raise SystemExit(f"not within {seconds} s: {what}; the node says {seen}")

    def no_preflight_left(self):
        left = self.run("ls -A /etc/kubernetes/manifests | grep preflight", check=False)
        assert not left.strip(), f"left in the manifest directory: {left}"

    def untouched_since(self, before):
        """The scheduler that ran before still runs: the same container, and no preflight is left."""
        self.no_preflight_left()
        time.sleep(3)
        assert self.scheduler() == before, f"the running scheduler was touched: {before} {self.scheduler()}"

    def start(self, command):
        """A command that goes on meanwhile."""
        return subprocess.Popen([TESTBED, "exec", "--name", self.name, "cp1", "sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ready(self, what, seconds, fits=lambda: True):
        return self.wait(lambda phase, *_: phase == "Ready" and fits(), what, seconds)
