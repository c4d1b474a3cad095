"""One control-plane node, from the inside: the first process of its namespaces. Brings it up, then keeps it up."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from . import cgroups, containerd, kubeadm, mounts, network, systemd
from .places import Bed, Node, Problem
from .watch import CONTROL_PLANE, Watch

STATE = Path("/run/containerd")
KUBELET_ARGUMENTS = (
    "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    "--config=/var/lib/kubelet/config.yaml",
    "--v=2",
)


def main():
    bed, number, nodes, version, *booted = sys.argv[1:]
    node = Node(Bed(bed), int(number))
    if not booted:
        node.write_pid(os.readlink("/proc/self"))  # still the machine's /proc: the number that it knows us by
        collect_orphans()
    Supervisor(node, int(nodes), version, booted).run()


def collect_orphans():
    """The first process of the namespaces does nothing else; its child returns from here."""
    supervisor = os.fork()
    if supervisor:
        while os.wait()[0] != supervisor:
            pass
        sys.exit("the node's supervisor ended")


class Supervisor:
    def __init__(self, node, nodes, version, booted):
        self.node, self.nodes, self.version, self.booted = node, nodes, version, booted
        self.begin = time.monotonic()
        self.processes = {}
        self.watch = None
        self.say = threading.Lock()

    def tell(self, kind, text):
        line = {"seconds": round(time.monotonic() - self.begin, 1), "kind": kind, "text": text}
        with self.say, open(self.node.progress, "a") as progress:
            progress.write(json.dumps(line) + "\n")

    def run(self):
        try:
            self.bring_up()
        except Exception as problem:  # whatever it is, `up` must hear of it
            self.tell("failed", str(problem) if isinstance(problem, Problem) else traceback.format_exc())
            while True:
                time.sleep(3600)  # for whoever wants to look
        self.keep_up()

    def bring_up(self):
        node = self.node
        self.arrange()
        self.tell("step", "systemd" if self.booted else "namespaces")
        pause = containerd.pause_name(self.version)
        containerd.configure(node.directory / "containerd.toml", node.directory / "containerd", STATE, pause)
        self.start_containerd()
        containerd.wait(self.processes["containerd"], STATE, node.log / "containerd.log")
        self.tell("step", "containerd")
        self.watch = Watch(node, STATE, lambda text: self.tell("warning", text))
        self.wait_for_turn()
        config = node.directory / "kubeadm.yaml"
        cgroup = "/" if self.booted else f"/{node.cgroup}"
        config.write_text(kubeadm.config(node, self.version, cgroups.are_v1(), cgroup))
        self.start("kubeadm", kubeadm.command(node, config))
        self.until(self.kubeadm_done)
        if node.number > 1:
            network.serve_locally_from_now_on()
        node.joined.touch()
        self.tell("step", "kubeadm")
        self.until(self.are_ready(f"node/{node.name}"))
        self.until(self.are_ready(f"pod/kube-scheduler-{node.name}"))
        self.tell("step", "scheduler Ready")
        self.until(self.are_ready(*(f"pod/{name}-{node.name}" for name in CONTROL_PLANE)))
        self.watch.stop()
        self.tell("ready", "all Ready")

    def arrange(self):
        node = self.node
        if self.booted:
            systemd.arrange()
        else:
            socket.sethostname(node.name)
            mounts.arrange(node)
        Path("/etc/hostname").write_text(f"{node.name}\n")
        Path("/etc/machine-id").write_text(f"{node.machine_id}\n")
        network.write_files(node, self.nodes)
        network.configure(node, self.nodes)

    def start(self, name, command):
        with open(self.node.log / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_containerd(self):
        self.start("containerd", ["containerd", "-c", str(self.node.directory / "containerd.toml")])

    def start_kubelet(self):
        """As its systemd unit would: the arguments are those that kubeadm wrote."""
        written = Path("/var/lib/kubelet/kubeadm-flags.env").read_text()
        arguments = re.search(r'KUBELET_KUBEADM_ARGS="?(.*?)"?$', written, re.M)
        self.start("kubelet", ["kubelet", *KUBELET_ARGUMENTS, *shlex.split(arguments[1])])

    def wait_for_turn(self):
        """etcd takes new members one at a time."""
        before = Node(self.node.bed, self.node.number - 1)
        if self.node.number > 1:
            self.until(before.joined.exists, seconds=600)

    def kubeadm_done(self):
        if "kubelet" not in self.processes and all(
            Path("/var/lib/kubelet", file).exists() for file in ("config.yaml", "kubeadm-flags.env")
        ):
            self.start_kubelet()
        status = self.processes["kubeadm"].poll()
        if status is None:
            return False
        del self.processes["kubeadm"]
        if status:
            raise Problem(f"kubeadm ended with status {status}; the end of its log:\n{self.tail('kubeadm')}")
        return True

    def are_ready(self, *what):
        """kubectl waits; when something is not there yet it ends, and is started again."""
        waiting = None

        def check():
            nonlocal waiting
            if waiting is None:
                command = ["kubectl", "-n", "kube-system", "wait", "--for=condition=Ready", *what, "--timeout=60s"]
                waiting = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            status = waiting.poll()
            if status:
                waiting = None
            return status == 0

        return check

    def until(self, done, seconds=240):
        """Waits for `done`, and fails as soon as anything that must run ended."""
        end = time.monotonic() + seconds
        while not done():
            for name in ("containerd", "kubelet"):
                process = self.processes.get(name)
                if process and process.poll() is not None:
                    raise Problem(
                        f"{name} ended with status {process.returncode}; the end of its log:\n{self.tail(name)}"
                    )
            if self.watch.failure:
                raise Problem(self.watch.failure)
            if time.monotonic() > end:
                raise Problem(f"not Ready after {seconds} s; the end of the kubelet's log:\n{self.tail('kubelet')}")
            time.sleep(0.1)

    def tail(self, name):
        return containerd.tail(self.node.log / f"{name}.log")

    def keep_up(self):
        """As systemd would from now on: what ends is started again."""
        restart = {"containerd": self.start_containerd, "kubelet": self.start_kubelet}
        while True:
            time.sleep(0.5)
            for name, start in restart.items():
                if self.processes[name].poll() is not None:
                    print(f"{name} ended with status {self.processes[name].returncode}: starting it again", flush=True)
                    start()


if __name__ == "__main__":
    main()
