"""`k3s server`: starts what k3s has built in, tells systemd, and ends when one of them ends."""

import re
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from bed import containerd

from . import keys, members, nodes, process, programs
from .arguments import DATA, Fatal

LOGS = Path("/var/log")
RUN = Path("/run/k3s/containerd")
TOO_EARLY = "server is not initialized yet"  # containerd listens before its CRI is there
# Seen with the real k3s: from the error of its scheduler to its own end.
LAST_WORDS = 2.7
# With the cloud controller, k3s starts its scheduler when the node lost the taint that it begins with.
UNTAINTED_AFTER = 25
CHANGES_LOGGING = re.compile(r"(v|vmodule)(=|$)")


class Server:
    def __init__(self, version, name, words, given):
        self.version, self.words, self.given = version, words, given
        self.name = given.get("node-name", name)
        self.data = Path(given.get("data-dir", DATA))
        self.address = given.get("node-ip") or given.get("advertise-address") or "127.0.0.1"
        self.port = given.get("https-listen-port", "6443")
        self.services = given.get("service-cidr", "10.43.0.0/16")
        self.socket = RUN / "containerd.sock"
        self.kubeconfig = Path(given.get("write-kubeconfig", "/etc/rancher/k3s/k3s.yaml"))
        self.has_members = bool(given.get("cluster-init")) or "server" in given
        # without other servers the datastore of k3s knows no leader
        self.leader_election = {} if self.has_members else {"leader-elect": "false"}
        self.children = {}
        self.is_ending = False

    def run(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.end)
        process.set_title("k3s server")
        self.say(f"Starting k3s {self.version}+k3s1 (stand-in)")
        keys.make(self)
        try:
            return self.serve()
        finally:
            self.stop()

    def serve(self):
        self.start("etcd", programs.etcd(self, members.join(self)))
        self.start("kube-apiserver", programs.apiserver(self))
        if not self.wait(self.api_is_ready):
            return self.last_words()
        self.say("Kube API server is now running")
        process.notify("READY=1\n")
        ready = time.monotonic()
        self.start("kube-controller-manager", programs.controller_manager(self))
        self.start_agent()
        delay = 0 if self.given.get("disable-cloud-controller") else UNTAINTED_AFTER
        if not self.wait(lambda: time.monotonic() >= ready + delay):
            return self.last_words()
        if any(CHANGES_LOGGING.match(word) for word in self.given["kube-scheduler-arg"]):
            raise Fatal("the logging configuration should not be changed after setting it once")
        self.start("kube-scheduler", programs.scheduler(self))
        self.wait(lambda: False)
        return self.last_words()

    def start_agent(self):
        config = self.data / "agent/etc/containerd/config.toml"
        config.parent.mkdir(parents=True, exist_ok=True)
        RUN.mkdir(parents=True, exist_ok=True)
        containerd.configure(config, self.data / "agent/containerd", RUN, self.given.get("pause-image", "pause"))
        self.start("containerd", ["containerd", "-c", str(config)])
        if self.wait(lambda: containerd.listens(str(self.socket))):
            self.start("kubelet", programs.kubelet(self))
            nodes.keep_annotated(self, self.words)

    def start(self, name, command):
        self.say(f"Running {' '.join(command)}")
        self.children[name] = process.start(command, LOGS / f"{name}.log")

    def wait(self, done):
        """Whether `done` came true before a child ended or somebody told us to end."""
        while not self.is_ending and not self.ended():
            if done():
                return True
            time.sleep(0.01)
        return False

    def ended(self):
        """The first child that ended. A kubelet that came before containerd was ready begins again, as in k3s, which waits for it."""
        for name, child in self.children.items():
            if child.poll() is None:
                continue
            if name != "kubelet" or TOO_EARLY not in self.error_of(name):
                return name
            time.sleep(0.2)
            self.start(name, programs.kubelet(self))
        return None

    def api_is_ready(self):
        tls = ssl.create_default_context(cafile=self.data / "server/tls/ca.crt")
        try:
            return urllib.request.urlopen(f"https://127.0.0.1:{self.port}/readyz", context=tls, timeout=5).status == 200
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
            return False

    def last_words(self):
        """What ended takes the whole process with it, some time later and with status 0, as if all were well."""
        if self.is_ending:
            return 0
        name = self.ended()
        self.say(f'Shutdown request received: "{name.removeprefix("kube-")} exited: {self.error_of(name)}"')
        end = time.monotonic() + LAST_WORDS
        while time.monotonic() < end and not self.is_ending:
            time.sleep(0.01)
        return 0

    def error_of(self, name):
        lines = containerd.tail(LOGS / f"{name}.log", 50).splitlines() or ["(nothing)"]
        for line in reversed(lines):
            if found := re.search(r'err="((?:[^"\\]|\\.)*)"$', line):
                return found[1].replace('\\"', "'")
        return lines[-1]

    def end(self, *_):
        self.is_ending = True

    def stop(self):
        """In k3s all of these are one process, so none may outlive it. Containers do."""
        for child in self.children.values():
            child.terminate()
        end = time.monotonic() + 1
        while time.monotonic() < end and any(child.poll() is None for child in self.children.values()):
            time.sleep(0.01)
        for child in self.children.values():
            child.kill()
            child.wait()

    def say(self, text):
        line = f'time="{time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}" level=info msg="{text}"'
        print(line, file=sys.stderr, flush=True)
        with open(LOGS / "k3s.log", "a") as log:
            log.write(f"{line}\n")
