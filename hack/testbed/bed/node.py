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

from . import cgroups, containerd, k3s, kubeadm, mounts, network, probes, ready, systemd
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
    node = Node(Bed(sys.argv[1]), int(sys.argv[2]))
    task = node.task()
    if not task.systemd:
        node.write_pid(os.readlink("/proc/self"))  # still the machine's /proc: the number that it knows us by
        collect_orphans()
    Supervisor(node, task).run()


def collect_orphans():
    """The first process of the namespaces does nothing else; its child returns from here."""
    supervisor = os.fork()
    if supervisor:
        while os.wait()[0] != supervisor:
            pass
        sys.exit("the node's supervisor ended")


class Supervisor:
    def __init__(self, node, task):
        self.node, self.task = node, task
        self.is_returning = node.joined.exists()
        self.begin, self.begin_of_day = time.monotonic(), time.time()
        self.processes = {}
        self.watch = None
        self.say = threading.Lock()

    def tell(self, kind, text):
        line = {"seconds": round(time.monotonic() - self.begin, 1), "kind": kind, "text": text}
        with self.say, open(self.node.progress, "a") as progress:
            progress.write(json.dumps(line) + "\n")

    def run(self):
        try:
            k3s.bring_up(self) if self.task.k3s else self.bring_up()
        except Exception as problem:  # whatever it is, `up` must hear of it
            self.tell("failed", str(problem) if isinstance(problem, Problem) else traceback.format_exc())
            while True:
                time.sleep(3600)  # for whoever wants to look
        self.keep_up()

    def bring_up(self):
        node = self.node
        self.arrange()
        self.tell("step", "systemd" if self.task.systemd else "namespaces")
        pause = containerd.pause_name(self.task.version)
        containerd.configure(node.directory / "containerd.toml", node.directory / "containerd", STATE, pause)
        self.start_containerd()
        containerd.wait(self.processes["containerd"], STATE, node.log / "containerd.log")
        self.tell("step", "containerd")
        self.watch = Watch(node, STATE, lambda text: self.tell("warning", text))
        if self.is_returning:
            self.start_kubelet()
            self.until(lambda: ready.have_started_since(self.begin_of_day, node))
        else:
            self.run_kubeadm()
        self.until(ready.are_ready(f"node/{node.name}"))
        if self.task.quick_probes and not ready.are_all_shown(node):
            self.restart_kubelet()
        self.until(ready.are_ready(f"pod/kube-scheduler-{node.name}"))
        self.tell("step", "scheduler Ready")
        self.until(ready.are_ready(*(f"pod/{name}-{node.name}" for name in CONTROL_PLANE)))
        self.watch.stop()
        self.tell("ready", "all Ready")

    def arrange(self):
        node = self.node
        if self.task.systemd:
            systemd.arrange()
        else:
            socket.sethostname(node.name)
            mounts.arrange(node)
        Path("/etc/hostname").write_text(f"{node.name}\n")
        Path("/etc/machine-id").write_text(f"{node.machine_id}\n")
        network.write_files(node)
        network.configure(node, None if self.is_returning or self.task.k3s else self.task.through)

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

    def restart_kubelet(self):
        """A kubelet makes a mirror pod when it looks at its static pod. If the API was not ready for that, it looks
        again when a probe's result changes; with quick probes all have, and it would be after more than a minute."""
        self.processes["kubelet"].terminate()
        self.processes["kubelet"].wait()
        self.start_kubelet()

    def run_kubeadm(self):
        self.until(self.is_our_turn, seconds=600)
        config = self.node.directory / "kubeadm.yaml"
        cgroup = "/" if self.task.systemd else f"/{self.node.cgroup}"
        config.write_text(kubeadm.config(self.node, self.task, cgroups.are_v1(), cgroup))
        if self.task.quick_probes:
            probes.write_patches()
        self.start("kubeadm", kubeadm.command(self.task, config))
        self.until(self.kubeadm_done)
        if self.task.through is not None:
            network.serve_locally_from_now_on(self.task.through)
        self.node.joined.touch()
        self.tell("step", "kubeadm")

    def is_our_turn(self):
        """etcd takes new members one at a time."""
        return all(other.joined.exists() for other in self.node.bed.nodes() if other.number < self.node.number)

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
            if self.watch and self.watch.failure:
                raise Problem(self.watch.failure)
            if time.monotonic() > end:
                raise Problem(f"not Ready after {seconds} s; the end of the kubelet's log:\n{self.tail('kubelet')}")
            time.sleep(0.1)

    def tail(self, name):
        return containerd.tail(self.node.log / f"{name}.log")

    def keep_up(self):
        """As systemd would from now on: what ends is started again."""
        restart = {"containerd": self.start_containerd, "kubelet": self.start_kubelet}
        if self.task.k3s:
            restart = {}  # systemd keeps up k3s, and k3s the rest
        while True:
            time.sleep(0.5)
            for name, start in restart.items():
                if self.processes[name].poll() is not None:
                    print(f"{name} ended with status {self.processes[name].returncode}: starting it again", flush=True)
                    start()


if __name__ == "__main__":
    main()
