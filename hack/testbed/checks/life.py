"""A bed comes up, does its work, stands beside others, and goes without a trace."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bed import programs
from bed.places import NEWEST, cache

from .background import BED, CHECKS, DIRECTORY, HERE, Up, check, expect, process_of, testbed
from .traces import bed_namespaces, expect_clean, machine, traces


@check
def up_works_and_down_leaves_nothing():
    before = machine()
    begin = time.monotonic()
    testbed("up", "--name", BED)
    seconds = time.monotonic() - begin
    expect(seconds < 45, f"up took {seconds:.1f} s")
    expect("Ready" in testbed("exec", "--name", BED, "cp1", "kubectl", "get", "node", "cp1"), "node is not Ready")
    expect("is up already" in testbed("up", "--name", BED), "up is not idempotent")
    expect(
        "is not what was asked for" in testbed("up", "--name", BED, "--nodes", "3", code=1),
        "another shape is taken for the same",
    )
    testbed("status", "--name", BED)
    expect("kube-scheduler" in testbed("logs", "--name", BED), "no logs")
    testbed("exec", "--name", BED, "cp1", "false", code=1)
    expect(traces(), "this check cannot see a bed that is up")
    own = bed_namespaces()
    expect(len(own) >= 5, f"a node has namespaces of its own: {own}")
    begin = time.monotonic()
    testbed("down", "--name", BED)
    seconds = time.monotonic() - begin
    expect(seconds < 5, f"down took {seconds:.1f} s")
    expect_clean(before, own)
    expect("is not up" in testbed("down", "--name", BED), "down is not idempotent")
    testbed("status", "--name", BED, code=1)


@check
def a_program_runs_in_a_node_wherever_it_is():
    testbed("up", "--name", BED)
    try:
        for place in ("/tmp", "/var/tmp", str(HERE), os.path.expanduser("~"), str(cache())):
            with tempfile.TemporaryDirectory(dir=place) as directory:  # made after `up`: it must be seen
                script = Path(directory, "script")
                script.write_text("#!/bin/sh\nhostname; pwd\n")
                script.chmod(0o755)
                said = testbed("exec", "--name", BED, "cp1", str(script), cwd=directory)
                expect(said == f"cp1\n{os.path.realpath(directory)}\n", f"in {place}: {said}")
        image = Path(tempfile.gettempdir(), f"{BED}.tar")
        pause = programs.home(NEWEST) / "pause"
        testbed("image", str(image), "local/waits:1", "/waits", f"{pause}=/waits")
        testbed("load", "--name", BED, str(image))
        image.unlink()
        testbed(
            "exec",
            "--name",
            BED,
            "cp1",
            "kubectl",
            "run",
            "waits",
            "--image=local/waits:1",
            "--image-pull-policy=Never",
        )
        testbed("exec", "--name", BED, "cp1", "kubectl", "wait", "--for=condition=Ready", "pod/waits", "--timeout=60s")
    finally:
        testbed("down", "--name", BED)


@check
def a_command_ends_with_its_caller():
    testbed("up", "--name", BED)
    try:
        caller = subprocess.Popen([HERE / "testbed", "exec", "--name", BED, "cp1", "sleep", "4242"])
        command = process_of("sleep", "4242")
        caller.kill()
        caller.wait()
        end = time.monotonic() + 5
        while Path(f"/proc/{command}").exists():
            expect(time.monotonic() < end, "the command goes on")
            time.sleep(0.05)
    finally:
        testbed("down", "--name", BED)


@check
def two_beds_run_side_by_side():
    before = machine()
    second = f"{BED}-b"
    ups = [Up(), Up(name=second)]
    try:
        for one in ups:
            expect(one.end() == 0, one.text())
        for name in (BED, second):
            testbed("exec", "--name", name, "cp1", "kubectl", "create", "configmap", name)
        listed = testbed("exec", "--name", BED, "cp1", "kubectl", "get", "configmap", "-o", "name")
        expect(f"configmap/{BED}\n" in listed and second not in listed, f"beds share an API: {listed}")
        testbed("down", "--name", second)
        expect(not [t for t in traces(second) if second in t], "the second bed left something")
        testbed("status", "--name", BED)
    finally:
        testbed("down", "--name", BED)
        testbed("down", "--name", second)
    expect_clean(before)


def killed_tool(moment, *arguments):
    before = machine()
    up = Up(*arguments)
    moment()
    up.end(signal.SIGKILL)
    expect(traces(), "nothing was there: this check proves nothing")
    own = bed_namespaces() if (DIRECTORY / BED / "cp1" / "pid").exists() else frozenset()
    testbed("down", "--name", BED)
    expect_clean(before, own)


def something_is_there():
    end = time.monotonic() + 30
    while not (DIRECTORY / BED).exists():
        expect(time.monotonic() < end, "up does not begin")


for _words, _moment in {
    "it begins": something_is_there,
    "containerd starts": lambda: process_of("containerd"),
    "etcd starts": lambda: process_of("etcd"),
}.items():
    CHECKS[f"nothing is left when up is killed as {_words}"] = lambda m=_moment: killed_tool(m)
CHECKS["nothing is left when up --systemd is killed as etcd starts"] = lambda: killed_tool(
    lambda: process_of("etcd"), "--systemd"
)


@check
def down_refuses_while_up_works():
    up = Up()
    process_of("kubelet")
    expect("is busy" in testbed("down", "--name", BED, code=1), "down works on a bed that comes up")
    expect(up.end(signal.SIGTERM) == 143, up.text())
    expect(not traces(), "left behind:\n" + "\n".join(traces()))


@check
def an_interrupted_up_cleans_up_itself():
    before = machine()
    up = Up()
    process_of("kubelet")
    expect(up.end(signal.SIGINT) == 130, up.text())
    expect_clean(before)


@check
def three_nodes_and_the_loss_of_the_first():
    before = machine()
    begin = time.monotonic()
    testbed("up", "--name", BED, "--nodes", "3")
    seconds = time.monotonic() - begin
    expect(seconds < 120, f"up took {seconds:.1f} s")
    pods = testbed("exec", "--name", BED, "cp2", "kubectl", "-n", "kube-system", "get", "pods", "-o", "name")
    expect(len(pods.split()) == 12, f"three of each were expected:\n{pods}")
    os.kill(int((DIRECTORY / BED / "cp1" / "pid").read_text()), signal.SIGKILL)
    create = [HERE / "testbed", "exec", "--name", BED, "cp2", "kubectl", "create", "configmap", "after-the-loss"]
    end = time.monotonic() + 60  # etcd elects a new leader first, maybe
    while subprocess.run(create, capture_output=True, check=False).returncode:
        expect(time.monotonic() < end, "two of three control planes do not take a write")
        time.sleep(1)
    expect(
        "after-the-loss" in testbed("exec", "--name", BED, "cp3", "kubectl", "get", "configmap"), "cp3 does not see it"
    )
    testbed("status", "--name", BED, code=1)
    testbed("down", "--name", BED)
    expect_clean(before)
    return f"up took {seconds:.0f} s"
