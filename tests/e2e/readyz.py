"""Looks every 100 ms at what /readyz says, what the agent's sources ask for and what the running schedulers were started
with, and prints a line of JSON each time. What sources ask for is told by their `parallelism`, which every configuration of the
tests has to itself; so nothing that the agent claims is taken for granted."""

import glob
import json
import os
import re
import time
import urllib.error
import urllib.request

READYZ = "http://127.0.0.1:9471/readyz"
STEP = 0.1
MARK = re.compile(r'"?parallelism"?: *(\d+)')  # YAML or JSON
known = {}  # of processes: what a scheduler read when it began does not change


def processes():
    """Agents' sources and schedulers' marks, by process."""
    agents, schedulers = {}, {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            if fields[0] in "ZX":  # it has ended
                continue
            key = (entry, fields[19])  # with the time it began
            with open(f"/proc/{entry}/cmdline") as line:
                words = line.read().split("\0")
            program = os.path.basename(words[0])
            if program == "kube-scheduler":
                schedulers["/".join(key)] = known[key] if key in known else known.setdefault(key, mark_of_scheduler(entry, words))
            elif program == "schedpatch" and words[1] == "run":
                agents["/".join(key)] = mark_of_sources(entry, words)
        except (OSError, IndexError):
            continue  # it ended while it was looked at
    return agents, schedulers


def flag(words, name):
    """Its last value; written with = or as the next word."""
    values = [word.partition("=")[2] or words[at + 1] for at, word in enumerate(words) if word.partition("=")[0] == name]
    return values[-1] if values else None


def mark_of_scheduler(pid, words):
    """0 for a scheduler without a configuration."""
    config = flag(words, "--config")
    return 0 if config is None else mark_in(f"/proc/{pid}/root{config}")


def mark_of_sources(pid, words):
    source = flag(words, "--source") or variable(pid, "SCHEDPATCH_SOURCE")
    marks = [mark_in(file) for file in glob.glob(f"/proc/{pid}/root{source}/*.yaml")]
    return max(marks, default=0)


def variable(pid, name):
    with open(f"/proc/{pid}/environ") as text:
        variables = dict(line.partition("=")[::2] for line in text.read().split("\0"))
    return variables.get(name)


def mark_in(file):
    with open(file) as text:
        found = MARK.search(text.read())
    return int(found[1]) if found else 0


def ask():
    try:
        with urllib.request.urlopen(READYZ, timeout=2) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


at = time.monotonic()
while True:
    agents, before = processes()
    code, said = ask()
    _, after = processes()
    sample = {"at": round(time.monotonic(), 3), "code": code, "said": said.strip(), "wanted": sorted(set(agents.values())),
              "running": sorted(set(before.values())), "moving": before != after}
    print(json.dumps(sample), flush=True)
    at = max(at + STEP, time.monotonic())
    time.sleep(max(0.0, at - time.monotonic()))
