"""From the manifest's rename to Ready: the kubelet's time, and what the agent adds to it and to the settling time."""

import re
import subprocess
import threading
import time
from dataclasses import dataclass

from .bed import MANIFESTS, Problem
from .inotify import Renames

PATIENCE = 300
SHOWN = (
    r"jsonpath={.metadata.annotations.schedpatch\.io/generation} {.status.containerStatuses[0].ready}"
    r" {.status.containerStatuses[0].containerID}{'\n'}"
)


class MirrorPod:
    """The scheduler's mirror pod, as a watch tells of it: when, generation, ready, container."""

    def __init__(self, node):
        name = f"kube-scheduler-{node.name}"
        line = ("kubectl", "-n", "kube-system", "get", "pod", name, "--watch", "-o", SHOWN)
        self.child, self.pid = node.start(*line, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.seen = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            now = time.monotonic()
            words = re.fullmatch(r"(\d*) (true|false)? ?(\S*)", line.strip("\n"))
            if words:
                self.seen.append((now, int(words[1] or 0), words[2] == "true", words[3]))

    def became_ready(self, generation, before):
        """When this generation became ready for the last time before then."""
        at = None
        was_ready = False
        for when, shown, ready, _ in list(self.seen):
            is_ready = ready and shown == generation
            if when > before:
                break
            at = when if is_ready and not was_ready else at
            was_ready = is_ready
        return at

    def stop(self):
        self.child.kill()
        self.child.wait()


@dataclass
class Change:
    swap_to_rename: float
    kubelet: float            # from the rename until the mirror pod is ready
    added: float              # by the agent, beyond the kubelet's time and the settling time


def measure(agent, node, source, pod, settle):
    """One change of the source, to its proof. All by the same clock, in this process."""
    renames = Renames(node.path(MANIFESTS))
    link = source.prepare()
    began = time.monotonic()
    source.swap(link)
    renamed = renames.wait("kube-scheduler.yaml", PATIENCE)
    renames.close()
    if renamed is None:
        raise Problem(f"a changed source was not applied in {PATIENCE} s: {agent.lines[-3:]}")
    ready = agent.wait_for("Ready", since=renamed, timeout=PATIENCE)
    generation = next(said["generation"] for at, said in agent.lines if at == ready)
    time.sleep(0.5)  # the observer's own news of the same moment may come later than the agent's
    became = pod.became_ready(generation, ready)
    if became is None:
        raise Problem(f"the agent says Ready for generation {generation}, which the watch never showed as ready")
    source.tidy()
    return Change(renamed - began, became - renamed, ready - became - settle)
