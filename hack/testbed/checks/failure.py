"""Each component is killed, and each is broken, while a bed comes up: reported within 10 s with the end of its log."""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bed import containerd
from bed.places import NEWEST, cache
from bed.watch import CONTROL_PLANE

from .background import BED, CHECKS, DIRECTORY, Up, expect, process_of
from .traces import expect_clean, machine

REPORT_SECONDS = 10


def kill_component(program):
    before = machine()
    up = Up()
    pid = process_of(program)
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    took = up.said(["cp1", f"{program} ended with status"], begin, REPORT_SECONDS)
    if program in CONTROL_PLANE:  # the kubelet starts it again: a report, and on it goes
        expect("warning" in up.text() and up.process.poll() is None, up.text())
        up.end(signal.SIGTERM)
    else:
        expect(up.end() == 1, up.text())
    expect_clean(before)
    return f"reported after {took:.1f} s"


def doctored(program, tools, absent=False):
    """A cache that differs from the real one in this: `program` says a word and ends, or is absent."""
    if program in CONTROL_PLANE:
        mirror(cache(), tools, ["kubernetes", NEWEST, "images"])
        images = tools / "kubernetes" / NEWEST / "images"
        containerd.copy_store(NEWEST, images)
        (replaced,) = images.glob(f"*/snapshots/*/fs/usr/local/bin/{program}")
        replaced.unlink()
    else:
        path = (
            ["debian", "containerd", "usr", "bin", program]
            if program == "containerd"
            else ["kubernetes", NEWEST, program]
        )
        mirror(cache(), tools, path)
        replaced = tools.joinpath(*path)
    if absent:
        return
    source = '#include <stdio.h>\nint main(void) { puts("broken on purpose"); return 3; }\n'
    subprocess.run(["gcc", "-static", "-o", replaced, "-x", "c", "-"], input=source, text=True, check=True)


def mirror(source, target, path):
    """`target` shows all of `source` but what `path` names in it."""
    target.mkdir()
    for entry in source.iterdir():
        if entry.name != path[0]:
            (target / entry.name).symlink_to(entry)
        elif path[1:]:
            mirror(entry, target / entry.name, path[1:])


def break_component(program, absent=False):
    before = machine()
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".selftest-") as directory:
        tools = Path(directory, "tools")
        doctored(program, tools, absent)
        up = Up(tools=tools)
        try:
            begin = time.monotonic() if program in ("containerd", "kubeadm") else first_seen(program)
            words = f"{program} cannot be started" if absent else f"{program} ended with status 3"
            took = up.said(["cp1", words], begin, REPORT_SECONDS)
            expect(up.end() == 1, up.text())
        finally:
            up.end(signal.SIGTERM if up.process.poll() is None else None)
        why = "executable file not found" if absent else "broken on purpose"
        expect(why in up.text(), f"the report does not say why:\n{up.text()}")
    expect_clean(before)
    return f"reported after {took:.1f} s"


def first_seen(program):
    """When a broken program may first have been started: its manifest, or the kubelet's configuration, is there."""
    root = DIRECTORY / BED / "cp1" / "root"
    file = root / (
        f"etc/kubernetes/manifests/{program}.yaml" if program in CONTROL_PLANE else "var/lib/kubelet/config.yaml"
    )
    end = time.monotonic() + 60
    while not file.exists():
        expect(time.monotonic() < end, f"{file} never appeared")
        time.sleep(0.05)
    return time.monotonic()


for _program in ("containerd", "kubelet", "kubeadm", *CONTROL_PLANE):
    CHECKS[f"{_program} killed: reported within {REPORT_SECONDS} s"] = lambda p=_program: kill_component(p)
for _program in ("containerd", "kubelet", "kubeadm", *CONTROL_PLANE):
    CHECKS[f"{_program} broken: reported within {REPORT_SECONDS} s"] = lambda p=_program: break_component(p)
CHECKS[f"kube-scheduler absent from its image: reported within {REPORT_SECONDS} s"] = lambda: break_component(
    "kube-scheduler", True
)
