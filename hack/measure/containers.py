"""The lives of a node's containers, as containerd tells them: what the API shows of a restart comes late and in part."""

import json
import subprocess
import threading


class Containers:
    """Those whose image is called `kube-scheduler`."""

    def __init__(self, node):
        line = ("ctr", "-n", "k8s.io", "events")
        self.child, self.pid = node.start(*line, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.schedulers = set(scheduler_ids(node.run("ctr", "-n", "k8s.io", "containers", "ls")))
        self.started = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            words, brace, fields = line.partition("{")
            if not brace:
                continue
            event, topic = json.loads(brace + fields), words.split()[-1]
            if topic == "/containers/create" and is_scheduler(event.get("image", "")):
                self.schedulers.add(event["id"])
            if topic == "/tasks/start" and event["container_id"] in self.schedulers:
                self.started.append(event["container_id"])

    def count(self):
        """How many were started since the beginning; each has an id of its own."""
        return len(set(self.started))

    def stop(self):
        if self.child.poll() is not None:
            raise RuntimeError("ctr events ended before its time, so restarts may have been missed")
        self.child.kill()
        self.child.wait()


def scheduler_ids(table):
    rows = (line.split() for line in table.splitlines()[1:])
    return [row[0] for row in rows if len(row) > 1 and is_scheduler(row[1])]


def is_scheduler(image):
    """`registry.k8s.io/kube-scheduler:v1.36.4` is."""
    return image.rsplit("/", 1)[-1].split(":")[0] == "kube-scheduler"
