"""A bed of k3s servers: commands in them, what systemd and the scheduler say, and their files as seen from here."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TESTBED = ROOT / "hack/testbed/testbed"
BEDS = Path(os.environ.get("SCHEDPATCH_BEDS") or "/var/lib/schedpatch-testbed")
UNIT = "/etc/systemd/system/k3s.service"
VOLATILE = "/run/systemd/system/k3s.service.d"
DROP_INS = "/etc/rancher/k3s/config.yaml.d"
DROP_IN = f"{DROP_INS}/90-schedpatch.yaml"
STATE = "/var/lib/schedpatch"
BEGINS = re.compile(r"Starting k3s v")


class Bed:
    def __init__(self, name, nodes, k3s=None):
        """`k3s` is the path of a real k3s, which runs instead of the stand-in."""
        self.name, self.count, self.k3s = name, nodes, k3s
        self.nodes = [Server(self, f"cp{number}") for number in range(1, nodes + 1)]
        self.first = self.nodes[0]

    def up(self):
        kind = ["--k3s-binary", self.k3s] if self.k3s else ["--k3s"]
        command = [TESTBED, "up", "--name", self.name, *kind, f"--nodes={self.count}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return self

    def down(self):
        self.verb("down")

    def verb(self, verb, *words):
        done = subprocess.run([TESTBED, verb, "--name", self.name, *words], capture_output=True, text=True)
        assert done.returncode == 0, f"testbed {verb} {' '.join(map(str, words))}: {done.stdout}{done.stderr}"
        return done.stdout


class Server:
    """One k3s server."""

    def __init__(self, bed, name):
        self.bed, self.name = bed, name

    def run(self, *command, stdin=None, check=True, seconds=300):
        """Runs words, or one string by a shell; gives what it printed."""
        words = ["sh", "-c", command[0]] if len(command) == 1 else list(map(str, command))
        line = [TESTBED, "exec", "--name", self.bed.name, self.name, *words]
        done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=seconds)
        assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def kubectl(self, *words, **more):
        return self.run("kubectl", "--request-timeout=15s", *words, **more)

    def path(self, path):
        """A file of the node, as seen from here."""
        return BEDS / self.bed.name / self.name / "root" / path.lstrip("/")

    def show(self, name, unit="k3s"):
        return self.run("systemctl", "show", f"--property={name}", "--value", unit).strip()

    def command_line(self, unit="k3s"):
        """The words that systemd has loaded for the unit."""
        return re.search(r"argv\[\]=(.*?) ; ignore_errors=", self.show("ExecStart", unit))[1].split()

    def is_active(self):
        """Whether systemd says that k3s has started and is not ending."""
        return self.run("systemctl is-active k3s", check=False).strip() == "active"

    def log(self):
        """What k3s has said: the stand-in writes a file, a real one writes into the journal."""
        file = BEDS / self.bed.name / self.name / "log/k3s.log"
        return file.read_text() if file.exists() else self.run("journalctl -u 'k3s*' --no-pager --quiet -o cat", check=False)

    def starts(self):
        """How often k3s was started."""
        return len(BEGINS.findall(self.log()))

    def lost_leaderships(self):
        """How often k3s ended because etcd was too slow for one of its leases: nobody asked for those starts."""
        return len(re.findall(r"Shutdown request received: .*leader ?election lost", self.log(), re.I))

    def last_scheduler(self, start=-1):
        """The command line of the scheduler that the last start of k3s ran, or an earlier one; empty if there was none."""
        part = BEGINS.split(self.log())[start]
        lines = [line for line in part.splitlines() if "Running kube-scheduler" in line]
        return lines[-1] if lines else ""

    def answers(self):
        """Whether the scheduler's /readyz says 200 now."""
        return self.run("curl -sk --max-time 2 https://127.0.0.1:10259/readyz", check=False) == "ok"

    def runs_with(self):
        """The configuration that the scheduler runs with, by its `parallelism`; None when nobody answers."""
        shown = self.run("kubectl", "--request-timeout=5s", "--server=https://127.0.0.1:10259", "get", "--raw", "/configz", check=False)
        found = re.search(r'"parallelism":(\d+)', shown, re.I)
        return int(found[1]) if found else None

    def annotations(self):
        shown = self.kubectl("get", "node", self.name, "-o", "json", check=False)
        found = json.loads(shown or "{}").get("metadata", {}).get("annotations", {})
        return {name.removeprefix("schedpatch.io/"): text for name, text in found.items() if name.startswith("schedpatch.io/")}

    def restart(self):
        """As a person does it."""
        self.run("systemctl daemon-reload && systemctl restart k3s")

    def lose(self):
        """Its power fails."""
        os.kill(int((BEDS / self.bed.name / self.name / "pid").read_text()), signal.SIGKILL)
        time.sleep(0.5)

    def come_back(self):
        self.bed.verb("return", self.name)

    def agent_pids(self):
        """Out here."""
        found, cgroup = [], f"schedpatch-testbed/{self.bed.name}/{self.name}/"
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "comm").read_text() == "schedpatch\n" and cgroup in (entry / "cgroup").read_text():
                    found.append(int(entry.name))
            except OSError:
                pass  # ended meanwhile
        return found

    def kill_agent(self, number=signal.SIGKILL):
        for pid in self.agent_pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def is_trying(self):
        """Whether the volatile drop-in of a trial is there."""
        return any(self.path(VOLATILE).glob("*schedpatch*"))


def wait(holds, what, seconds=120, pause=0.3):
    """Until it holds; gives what it gave."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(pause)
    return found
