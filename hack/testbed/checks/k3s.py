"""A k3s server: what agents beside it rely on, observed at a real one, holds for the bed's stand-in too."""

import json
import os
import re
import signal
import tempfile
import time
from pathlib import Path

from bed.places import CHECKOUT

from .background import BED, DIRECTORY, check, expect, testbed
from .traces import bed_namespaces, expect_clean, machine, traces

GOLDEN = CHECKOUT / "crates/unit-edit/tests/golden"
DROP_INS = "/etc/rancher/k3s/config.yaml.d"
GONE = {"kube-apiserver", "kube-scheduler", "kubelet", "etcd", "containerd"}


def in_node(*command, **options):
    return testbed("exec", "--name", BED, options.pop("node", "cp1"), *command, **options)


def show(name):
    return in_node("systemctl", "show", f"--property={name}", "--value", "k3s").strip()


def restart(code=0):
    in_node("systemctl", "restart", "k3s", code=code)


def answers(seconds, node="cp1"):
    """After how many seconds the scheduler's /readyz says 200; None when it does not."""
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        try:
            if in_node("curl", "-sk", "https://127.0.0.1:10259/readyz", node=node) == "ok":
                return time.monotonic() - begin
        except AssertionError:
            time.sleep(0.2)  # connection refused
    return None


def expect_answer(seconds=60, node="cp1"):
    expect(answers(seconds, node) is not None, f"no scheduler after {seconds} s:\n{in_node('tail', '/var/log/k3s.log')}")


def until(done, seconds, what):
    end = time.monotonic() + seconds
    while not done():
        expect(time.monotonic() < end, f"after {seconds} s still not: {what}")
        time.sleep(0.3)


def node_arguments(node="cp1"):
    path = "jsonpath={.metadata.annotations.k3s\\.io/node-args}"
    return json.loads(in_node("kubectl", "get", "node", node, "-o", path, node=node))


def write(place, text):
    in_node("sh", "-c", f"mkdir -p $(dirname {place}); cat > {place}", input=text)


def up(*arguments):
    before, begin = machine(), time.monotonic()
    testbed("up", "--name", BED, "--k3s", *arguments)
    return before, time.monotonic() - begin


def down(before):
    own = bed_namespaces()
    expect(traces(), "this check cannot see a bed that is up")
    testbed("down", "--name", BED)
    expect_clean(before, own)


@check
def k3s_behaves_like_a_real_one():
    before, seconds = up()
    testbed("status", "--name", BED)
    for part in (installer, the_process, arguments_from_files, bad_configuration, broken_file, late_scheduler, lost_and_back):
        part()
    down(before)
    return f"up took {seconds:.0f} s"


def unit():
    return in_node("cat", "/etc/systemd/system/k3s.service")


def installer():
    expect(unit() == (GOLDEN / "installer/in.service").read_text(), "not the unit of the installer")
    first = show("InvocationID")
    expect("not restarted" in testbed("install-k3s", "--name", BED, "cp1"), "restarted without a change")
    expect(show("InvocationID") == first, "restarted without a change")
    words = ["--disable", "traefik", "--tls-san=10.0.0.1"]
    expect("restarted" in testbed("install-k3s", "--name", BED, "cp1", "--", *words), "not restarted")
    expect(unit() == (GOLDEN / "installer-arguments/in.service").read_text(), "not the unit of the installer")
    expect(show("InvocationID") != first, "not restarted")
    expect_answer()
    until(lambda: node_arguments()[-4:] == ["--disable", "traefik", "--tls-san", "10.0.0.1"], 20, "node-args")
    testbed("install-k3s", "--name", BED, "cp1")
    expect_answer()


def the_process():
    main = show("MainPID")
    expect(in_node("cat", f"/proc/{main}/cmdline").rstrip("\0") == "k3s server", "another title")
    listening = in_node("ss", "-Hltn", "sport = :10259")
    expect("127.0.0.1:10259" in listening and len(listening.splitlines()) == 1, f"not on loopback alone: {listening}")
    expect("--leader-elect=false" in in_node("pgrep", "-a", "-x", "kube-scheduler"), "leader election with one server")
    in_node("kubectl", "create", "deployment", "waits", "--image=" + pause(), "--", "/pause")
    in_node("kubectl", "wait", "--for=condition=Available", "deployment/waits", "--timeout=90s")
    container = in_node("pgrep", "-f", "^/pause")
    in_node("kill", "-9", main)
    until(lambda: not GONE & set(in_node("ps", "-e", "-o", "comm=").split()), 3, "k3s ended, and left nothing behind")
    expect(in_node("pgrep", "-f", "^/pause") == container, "a container ended with k3s")
    expect_answer()
    restart()
    expect_answer()
    expect(in_node("pgrep", "-f", "^/pause") == container, "a container ended with k3s")


def pause():
    return re.search(r'^pause-image: "(.*)"$', in_node("cat", "/etc/rancher/k3s/config.yaml"), re.M)[1]


def arguments_from_files():
    write(f"{DROP_INS}/10-ours.yaml", "kube-scheduler-arg+: [kube-api-qps=51]\nno-such-key: 1\n")
    restart()
    expect_answer()
    expect("--kube-api-qps=51" in in_node("pgrep", "-a", "-x", "kube-scheduler"), "the file is not read")
    write(f"{DROP_INS}/20-theirs.yaml", "kube-scheduler-arg: [kube-api-burst=99]\n")
    restart()
    expect_answer()
    running = in_node("pgrep", "-a", "-x", "kube-scheduler")
    expect("--kube-api-burst=99" in running and "qps" not in running, f"a later list does not replace: {running}")
    in_node("rm", "-r", DROP_INS)
    restart()
    expect_answer()


def bad_configuration():
    write(f"{DROP_INS}/10-ours.yaml", "kube-scheduler-arg+: [config=/nowhere.yaml]\n")
    restart()  # and that succeeds
    first, restarts = show("InvocationID"), int(show("NRestarts"))
    expect(show("ActiveState") == "active" and show("Result") == "success", "systemd knows at once")
    until(lambda: int(show("NRestarts")) > restarts + 1, 60, "started again twice")
    expect(show("InvocationID") != first and show("ExecMainStatus") == "0", "k3s did not end with status 0")
    expect("Shutdown request received" in in_node("tail", "-n50", "/var/log/k3s.log"), "no last words")
    in_node("rm", "-r", DROP_INS)
    expect_answer()


def broken_file():
    write(f"{DROP_INS}/10-ours.yaml", "kube-scheduler-arg+: [")
    restart(code=1)
    expect(show("ExecMainStatus") == "1", "a broken file is not fatal")
    in_node("rm", "-r", DROP_INS)
    expect_answer()


def late_scheduler():
    """With the cloud controller the scheduler waits for a node without its taint."""
    write(f"{DROP_INS}/10-ours.yaml", "disable-cloud-controller: false\n")
    restart()
    seconds = answers(60)
    expect(seconds and seconds > 15, f"the scheduler answers after {seconds} s")
    in_node("rm", "-r", DROP_INS)
    restart()
    expect_answer()


def lost_and_back(node="cp1"):
    in_node("kubectl", "create", "configmap", "before-the-loss", node=node)
    os.kill(int((DIRECTORY / BED / node / "pid").read_text()), signal.SIGKILL)
    time.sleep(1)
    testbed("return", "--name", BED, node)
    in_node("kubectl", "get", "configmap", "before-the-loss", node=node)
    expect(unit() == (GOLDEN / "installer/in.service").read_text(), "the unit was lost")
    testbed("status", "--name", BED)


@check
def another_program_takes_the_place_of_the_stand_in():
    """What it is does not matter to the bed: here a copy of the stand-in, under another name."""
    before, _ = up()
    program = Path(tempfile.gettempdir(), f"{BED}-k3s")
    program.write_text(in_node("cat", "/usr/local/bin/k3s"))
    program.chmod(0o755)
    try:
        testbed("down", "--name", BED)
        testbed("up", "--name", BED, "--k3s-binary", str(program))
        testbed("status", "--name", BED)
    finally:
        program.unlink()
    expect("is no program" in testbed("up", "--name", BED, "--k3s-binary", "/nowhere", code=1), "a program that is not there")
    down(before)


def creates(name, node):
    try:
        return in_node("kubectl", "create", "configmap", name, node=node)
    except AssertionError:
        return False  # etcd elects a new leader first, maybe


@check
def three_k3s_servers_share_one_etcd():
    before, seconds = up("--nodes", "3")
    expect("leader-elect=false" not in in_node("pgrep", "-a", "-x", "kube-scheduler"), "no leader election")
    roles = in_node("kubectl", "get", "nodes", "--no-headers", node="cp3")
    expect(len(re.findall(r"Ready +control-plane,etcd", roles)) == 3, f"not three servers with etcd: {roles}")
    in_node("systemctl", "stop", "k3s")
    until(lambda: creates("two-of-three", "cp2"), 60, "two of three servers take a write")
    in_node("systemctl", "start", "k3s")
    expect_answer()
    lost_and_back("cp2")
    expect("keeps the nodes" in testbed("add", "--name", BED, code=1), "a node more")
    down(before)
    return f"up took {seconds:.0f} s"
