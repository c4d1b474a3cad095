"""Each component is killed, and each is broken, while a bed comes up: reported within 10 s with the end of its log."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bed import containerd, packages, programs
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


def doctored(program, directory):
    """A cache that differs from the real one in this: `program` says a word and ends."""
    broken = Path(directory, "broken")
    source = "#include <stdio.h>\nint main(void) { puts(\"broken on purpose\"); return 3; }\n"
    subprocess.run(["gcc", "-static", "-o", broken, "-x", "c", "-"], input=source, text=True, check=True)
    tools = Path(directory, "tools")
    own = tools / "kubernetes" / NEWEST
    own.mkdir(parents=True)
    for entry in cache().iterdir():
        if entry.name not in ("kubernetes", "debian"):
            (tools / entry.name).symlink_to(entry)
    for entry in programs.home(NEWEST).iterdir():
        (own / entry.name).symlink_to(entry)
    (tools / "debian").mkdir()
    for entry in packages.home("x").parent.iterdir():
        (tools / "debian" / entry.name).symlink_to(entry)
    if program in CONTROL_PLANE:
        (own / "images").unlink()
        containerd.copy_store(NEWEST, own / "images")
        replaced, = (own / "images").glob(f"*/snapshots/*/fs/usr/local/bin/{program}")
    elif program == "containerd":
        (tools / "debian" / "containerd").unlink()
        shutil.copytree(packages.home("containerd"), tools / "debian" / "containerd", copy_function=os.link)
        replaced = tools / "debian" / "containerd" / "usr/bin/containerd"
    else:
        replaced = own / program
    replaced.unlink()
    shutil.copy2(broken, replaced)
    if program == "containerd":  # the store of images is still that of the real one
        (own / "images").unlink()
        containerd.copy_store(NEWEST, own / "images")
        os.environ["SCHEDPATCH_TOOLS"], real = str(tools), os.environ.get("SCHEDPATCH_TOOLS")
        (own / "images" / "recipe.json").unlink()
        (own / "images" / "recipe.json").write_text(containerd.recipe(NEWEST))
        os.environ.pop("SCHEDPATCH_TOOLS") if real is None else os.environ.update(SCHEDPATCH_TOOLS=real)
    return tools


def break_component(program):
    before = machine()
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".selftest-") as directory:
        tools = doctored(program, directory)
        up = Up(tools=tools)
        try:
            begin = time.monotonic() if program in ("containerd", "kubeadm") else first_seen(program)
            took = up.said(["cp1", f"{program} ended with status 3"], begin, REPORT_SECONDS)
            expect(up.end() == 1, up.text())
        finally:
            up.end(signal.SIGTERM if up.process.poll() is None else None)
        expect("broken on purpose" in up.text(), f"the report has no log:\n{up.text()}")
    expect_clean(before)
    return f"reported after {took:.1f} s"


def first_seen(program):
    """When a broken program may first have been started: its manifest, or the kubelet's configuration, is there."""
    root = DIRECTORY / BED / "cp1" / "root"
    file = root / (f"etc/kubernetes/manifests/{program}.yaml" if program in CONTROL_PLANE else "var/lib/kubelet/config.yaml")
    end = time.monotonic() + 60
    while not file.exists():
        expect(time.monotonic() < end, f"{file} never appeared")
        time.sleep(0.05)
    return time.monotonic()


for _program in ("containerd", "kubelet", "kubeadm", *CONTROL_PLANE):
    CHECKS[f"{_program} killed: reported within {REPORT_SECONDS} s"] = lambda p=_program: kill_component(p)
for _program in ("containerd", "kubelet", "kubeadm", *CONTROL_PLANE):
    CHECKS[f"{_program} broken: reported within {REPORT_SECONDS} s"] = lambda p=_program: break_component(p)
