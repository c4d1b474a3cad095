"""Working with a bed that is up: commands in a node, images, logs, and how it is."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from . import containerd, k3s, kubeadm, partition, setup
from .places import Bed, Problem, beds_directory, say
from .watch import CONTROL_PLANE

OWN_LOGS = ("node", "k3s", "containerd", "kubeadm", "kubelet")


def command(node, arguments, directory=None):
    """The command line that runs `arguments` in the node."""
    pid = node.pid()
    if pid is None:
        raise Problem(f"{node.title} does not run: testbed return --name {node.bed.name} {node.name}")
    variables = setup.environment(version(node.bed), node)
    variables |= {name: os.environ[name] for name in ("TERM", "COLUMNS", "LINES") if name in os.environ}
    enter = ["nsenter", "-t", str(pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup"]
    end_with_caller = ["setpriv", "--pdeathsig", "KILL"]
    change = [f"--chdir={directory}"] if directory and Path(f"/proc/{pid}/root{directory}").is_dir() else []
    return [*enter, *end_with_caller, "env", "-i", *change, *(f"{k}={v}" for k, v in variables.items()), *arguments]


def version(bed):
    """Also of a bed that is coming up, or failed to."""
    if bed.record.exists():
        return json.loads(bed.record.read_text())["version"]
    if (bed.directory / "version").exists():
        return (bed.directory / "version").read_text()
    raise Problem(f"bed {bed.name} is not up: testbed up --name {bed.name}")


def execute(node, arguments):
    line = command(node, arguments, os.getcwd())
    sys.stdout.flush()
    os.execvp(line[0], line)


def kubeconfig(bed):
    if not bed.nodes():
        raise Problem(f"bed {bed.name} is not up: testbed up --name {bed.name}")
    print(kubeadm.KUBECONFIG)


def load(bed, archive):
    """Into every node, side by side. The archive goes through a pipe, since a node need not see the file."""
    if not Path(archive).is_file():
        raise Problem(f"{archive} is no image archive")
    if not bed.nodes():
        raise Problem(f"bed {bed.name} is not up: testbed up --name {bed.name}")
    running = {}
    for node in bed.nodes():
        line = command(node, containerd.ctr("/run/containerd", "images", "import", "-"))
        with open(archive, "rb") as data:
            running[node] = subprocess.Popen(
                line, stdin=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
    for node, process in running.items():
        output = process.communicate()[0].strip()
        if process.returncode:
            raise Problem(f"{node.name} does not take {archive}: {output}")
        say(f"{node.name}: {output.splitlines()[-1]}")


def logs(bed, node_name=None, component=None, follow=False):
    if not bed.nodes():
        raise Problem(f"bed {bed.name} is not up: testbed up --name {bed.name}")
    nodes = [bed.node(node_name)] if node_name else bed.nodes()
    if component is None:
        for node in nodes:
            for name in components(node):
                print(f"==> {node.name} {name} <==\n{plain(containerd.tail(log_files(node, name)[-1]))}\n")
        return
    files = [str(file) for node in nodes for file in log_files(node, component)]
    if not files:
        there = ", ".join(components(nodes[0]))
        raise Problem(f"{nodes[0].name} has no log of {component!r} (there: {there})")
    if follow:
        os.execvp("tail", ["tail", "-n", "+1", "-F", files[-1]])
    for file in files:
        print(plain(Path(file).read_text(errors="replace")))


def components(node):
    pods = {directory.name for directory in node.log.glob("pods/*/*") if directory.is_dir()}
    ordered = [*OWN_LOGS, *CONTROL_PLANE, *sorted(pods - set(CONTROL_PLANE))]
    return [name for name in ordered if log_files(node, name)]


def log_files(node, component):
    if component in OWN_LOGS or node.task().k3s:
        return [file] if (file := node.log / f"{component}.log").exists() else []
    return sorted(node.log.glob(f"pods/*/{component}/*.log"), key=lambda file: file.stat().st_mtime)


def plain(text):
    """Without the prefix of the container runtime."""
    return re.sub(r"^\S+ (stdout|stderr) [FP] ", "", text, flags=re.M).rstrip()


def status(name=None):
    """One line per node; returns whether all that was asked about is well."""
    directory = beds_directory()
    names = [name] if name else sorted(d.name for d in directory.iterdir()) if directory.is_dir() else []
    if not names:
        print("no bed is up")
    return all([bed_status(Bed(each)) for each in names]) and bool(names)


def bed_status(bed):
    if not bed.nodes():
        print(f"{bed.name}: not up")
        return False
    if not bed.record.exists():
        print(f"{bed.name}: is coming up, or an `up` was cut off (testbed down --name {bed.name})")
    well = bed.record.exists()
    for node in bed.nodes():
        text, good = node_status(node)
        cut = partition.described(node) if node.pid() else ""
        well &= good and not cut
        print(f"{bed.name} {node.name} {node.address}: {f'{cut}; ' if cut else ''}{text}")
    return well


def node_status(node):
    if node.pid() is None:
        return "does not run", False
    if node.task().k3s:
        done = subprocess.run(command(node, k3s.check(node)), capture_output=True, text=True, check=False)
        text = f"{version(node.bed)}, k3s, {(done.stdout or done.stderr).strip().splitlines()[-1]}; files: {node.root}"
        return text, done.returncode == 0
    template = "{range .items[*]}{.metadata.name}={.status.containerStatuses[0].ready} {end}"
    shown = subprocess.run(
        command(
            node,
            [
                "kubectl",
                "-n",
                "kube-system",
                "get",
                "pods",
                "--request-timeout=5s",
                f"--field-selector=spec.nodeName={node.name}",
                "-o",
                f"jsonpath={template}",
            ],
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode:
        return f"runs, but its API server does not answer: {shown.stderr.strip().splitlines()[-1]}", False
    ready = dict(pair.split("=") for pair in shown.stdout.split() if pair.count("=") == 1)
    states = {name: ready.get(f"{name}-{node.name}") == "true" for name in CONTROL_PLANE}
    text = ", ".join(f"{name} {'Ready' if good else 'not Ready'}" for name, good in states.items())
    return f"{version(node.bed)}, {text}; files: {node.root}", all(states.values())
