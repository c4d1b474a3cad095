"""A node that systemd boots: systemctl works in it, a pod reaches it over D-Bus, and it goes without a trace."""

import json

from bed import programs
from bed.places import NEWEST

from .background import BED, HERE, check, expect, testbed
from .traces import bed_namespaces, expect_clean, machine, traces

RESTARTED = "systemd-logind.service"


def pod():
    """The machine's busctl, in a container that has nothing but host directories."""
    mounts = {"usr": "/usr", "lib": "/lib", "lib64": "/lib64", "dbus": "/run/dbus"}
    hosts = {**mounts, "lib": "/usr/lib", "lib64": "/usr/lib64"}
    call = [
        "/usr/bin/busctl",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "RestartUnit",
        "ss",
        RESTARTED,
        "replace",
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "restarts-a-unit"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "busctl",
                    "image": programs.image_names(NEWEST)["kube-scheduler"],
                    "command": call,
                    "volumeMounts": [{"name": name, "mountPath": path} for name, path in mounts.items()],
                }
            ],
            "volumes": [{"name": name, "hostPath": {"path": path}} for name, path in hosts.items()],
        },
    }


def in_node(*command, **options):
    return testbed("exec", "--name", BED, "cp1", *command, **options)


def invocation():
    return in_node("systemctl", "show", "--property=InvocationID", RESTARTED)


@check
def systemd_boots_a_node_and_a_pod_reaches_it():
    before = machine()
    testbed("up", "--name", BED, "--systemd")
    expect(in_node("cat", "/proc/1/comm") == "systemd\n", "the first process is not systemd")
    expect(in_node("systemctl", "is-system-running") == "running\n", in_node("systemctl", "--failed"))
    expect(in_node("test", "-x", str(HERE / "testbed")) == "", "the checkout is not seen")
    first = invocation()
    in_node("kubectl", "apply", "-f", "-", input=json.dumps(pod()))
    in_node("kubectl", "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/restarts-a-unit", "--timeout=60s")
    expect("/org/freedesktop/systemd1/job/" in in_node("kubectl", "logs", "restarts-a-unit"), "no job came back")
    expect(invocation() != first, f"{RESTARTED} was not restarted")
    own = bed_namespaces()
    expect(traces(), "this check cannot see a bed that is up")
    testbed("down", "--name", BED)
    expect_clean(before, own)
