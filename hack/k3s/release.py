"""schedpatch as people install it on k3s: image, chart, ConfigMap; and what a node must show when a change is proven."""

import itertools
import json
import random
import re
import subprocess
import time

from .bed import ROOT, UNIT, wait

NAMESPACE = "schedpatch"
WANTED = "/run/k3s-e2e.yaml"
SETTLE = 5
VERIFY = 90
NEXT = itertools.count(random.randint(17, 500))  # more than the scheduler's own 16; a bed may have seen an earlier run
LONG = 180


def another():
    """A configuration that differs from every other by its `parallelism`."""
    return next(NEXT)


def text(mark, is_bad=False):
    """What is bad about it no lint sees, since a plugin's arguments are its own affair; the scheduler says so and ends."""
    bad = """\
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: Nonsense}}
"""
    return f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: {mark}
extenders:
- urlPrefix: http://127.0.0.1:18889
  filterVerb: filter
  nodeCacheCapable: true
  ignorable: true
  httpTimeout: 5s
{bad if is_bad else ""}"""


class Release:
    def __init__(self, bed):
        self.bed, self.node = bed, bed.first
        self.mark = None

    def load(self, image):
        self.bed.verb("load", image)
        self.node.kubectl("create", "namespace", NAMESPACE, check=False)
        self.node.kubectl("label", "--overwrite", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged")

    def is_installed(self):
        return "schedpatch" in self.node.run("helm", "-n", NAMESPACE, "list", "--all", "-q")

    def helm(self, verb, *values, mark=None, is_bad=False):
        """`install` or `upgrade`, with further values."""
        self.mark = mark or self.mark or another()
        self.node.run(f"cat > {WANTED}", stdin=text(self.mark, is_bad))
        settings = ["platform=k3s", f"settle={SETTLE}s", f"verifyTimeout={VERIFY}s", "log.format=json", *values]
        chart = ROOT / "charts/schedpatch"
        self.node.run("helm", verb, "schedpatch", chart, "--namespace", NAMESPACE, "--set-file", f"config.config\\.yaml={WANTED}",
                      "--set", ",".join(settings))

    def change(self, mark=None, is_bad=False):
        """The ConfigMap alone; gives the new mark."""
        mark = mark or another()
        patch = json.dumps({"data": {"config.yaml": text(mark, is_bad)}})
        self.node.kubectl("-n", NAMESPACE, "patch", "configmap", "schedpatch", "--type=merge", "--patch", patch)
        if not is_bad:
            self.mark = mark
        return mark

    def present(self):
        """What the ConfigMap asks for."""
        config = self.node.kubectl("-n", NAMESPACE, "get", "configmap", "schedpatch", "-o", "yaml")
        return int(re.search(r"parallelism: (\d+)", config)[1])

    def uninstall(self):
        self.node.run("helm", "uninstall", "schedpatch", "--namespace", NAMESPACE, "--wait", "--timeout=10m", seconds=700)

    def remove(self):
        """From whatever state, for the next check to begin without it."""
        for server in self.bed.nodes:
            wait(server.answers, "a scheduler", LONG)
        if self.is_installed():
            self.uninstall()

    def agents(self):
        shown = self.node.kubectl("-n", NAMESPACE, "get", "pods", "-l", "app.kubernetes.io/component=agent", "-o", "name", check=False)
        return shown.split()

    def delete_agents(self):
        self.node.kubectl("-n", NAMESPACE, "delete", "--force", "--grace-period=0", *self.agents(), check=False)

    def expect_ready(self, servers=None, seconds=LONG):
        """Until these are Ready with what was asked for last."""
        for server in servers or self.bed.nodes:
            begin = time.monotonic()
            self.wait_for(server, "Ready", seconds=seconds, holds=lambda server=server: server.runs_with() == self.mark)
            assert "--config=" in server.last_scheduler(), f"{server.name}: {server.last_scheduler()}"
            seconds = max(30, seconds - (time.monotonic() - begin))

    def wait_for(self, server, phase, seconds=LONG, holds=lambda: True):
        """Until the node's annotations tell this phase, and `holds`; gives them."""
        def seen():
            now = server.annotations()
            return now if now.get("phase") == phase and holds() else None

        def shown():
            return f"{server.name} {phase}: now {server.annotations()}, runs with {server.runs_with()}, wanted {self.mark}\n{self.words(server)}"

        return wait(seen, shown, seconds)

    def words(self, server):
        """The end of the agent's log, which must be readable while the API is away too."""
        files = sorted(server.path("/var/log/pods").glob(f"{NAMESPACE}_schedpatch-*/*/*.log"), key=lambda file: file.stat().st_mtime)
        lines = files[-1].read_text(errors="replace").splitlines() if files else []
        return "\n".join(lines[-12:])


def ready(release, *values):
    """A release with these values that has proven its configuration."""
    if release.is_installed():
        release.helm("upgrade", *values, mark=release.mark or release.present())
    else:
        release.helm("install", *values)
    release.expect_ready()


def unit(server):
    return server.path(UNIT).read_bytes()


def image():
    """The one that hack/image made."""
    found = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version=1"], cwd=ROOT, capture_output=True, text=True, check=True)
    version = next(each["version"] for each in json.loads(found.stdout)["packages"] if each["name"] == "schedpatch")
    return ROOT / f"target/image/schedpatch-{version}.tar"
