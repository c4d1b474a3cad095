"""Kubernetes and etcd, built from the Go modules whose go.mod and go.sum stand beside this folder."""

import fcntl
import os
import re
import shutil
import subprocess
import time
from contextlib import contextmanager

from .places import HERE, Problem, cache, minor, say, versions

# In the order in which they are built; seconds on two cores, the first with all that they share.
PROGRAMS = {
    "kube-scheduler": 300,
    "kubeadm": 40,
    "kubelet": 60,
    "kube-apiserver": 80,
    "kube-controller-manager": 60,
    "kubectl": 30,
}
ETCD_SECONDS = 50


def home(version):
    return cache() / "kubernetes" / version


@contextmanager
def locked():
    """One process at a time fills the cache."""
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / ".testbed.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another testbed fills {cache()}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def known(version):
    if version not in versions():
        raise Problem(
            f"no module for Kubernetes {version} (there: {', '.join(versions())}); {HERE}/README.md says how to add one"
        )
    return version


def missing(version, only=None):
    wanted = [only] if only else [*PROGRAMS, "etcd"]
    return [name for name in wanted if not os.access(home(version) / name, os.X_OK)]


def build(version, only=None):
    """Builds what is missing; returns the directory of the programs."""
    left = missing(known(version), only)
    if not left:
        return home(version)
    seconds = sum(PROGRAMS.get(name, ETCD_SECONDS) for name in left)
    say(
        f"building {', '.join(left)} of Kubernetes {version} into {home(version)}: "
        f"once per machine, about {-(-seconds // 60)} min on 2 cores"
    )
    home(version).mkdir(parents=True, exist_ok=True)
    for count, name in enumerate(left, 1):
        begin = time.monotonic()
        say(f"[{count}/{len(left)}] building {name} ...")
        if name == "etcd":
            go_build(etcd_module(version), "go.etcd.io/etcd/server/v3", home(version) / name, "-s -w")
        else:
            go_build(
                HERE / "kubernetes" / version,
                f"k8s.io/kubernetes/cmd/{name}",
                home(version) / name,
                linker_flags(version),
            )
        say(f"[{count}/{len(left)}] {name}: {time.monotonic() - begin:.0f} s")
    return home(version)


def linker_flags(version):
    flags = "-s -w"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        flags += f" -X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor(version)}"
    return flags


def go_build(module, package, program, flags):
    go = go_program(module)
    new = program.with_name(f".{program.name}.new")
    result = subprocess.run(
        [go, "build", "-buildvcs=false", "-trimpath", "-ldflags", flags, "-o", new, package],
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if result.returncode:
        raise Problem(f"go build {package} in {module} failed:\n{result.stderr.strip()}")
    new.rename(program)


def go_program(module):
    go = shutil.which("go")
    wanted = re.search(r"^go (\S+)", (module / "go.mod").read_text(), re.M)[1]
    if go is None:
        raise Problem(f"go is missing: {module} needs Go {wanted} or newer on the PATH")
    have = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()[2:]

    def numbers(text):
        return [int(n) for n in re.findall(r"\d+", text)[:2]]

    automatic = subprocess.run([go, "env", "GOTOOLCHAIN"], capture_output=True, text=True, check=False).stdout.strip()
    if numbers(have) < numbers(wanted) and not automatic.startswith("auto"):
        raise Problem(f"{module} needs Go {wanted} or newer; {go} is {have}")
    return go


def image_names(version):
    """The images that this kubeadm will ask for, by short name."""
    listed = subprocess.run(
        [home(version) / "kubeadm", "config", "images", "list", "--kubernetes-version", version],
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        raise Problem(f"kubeadm {version} does not list its images: {listed.stderr.strip()}")
    return {name.rsplit("/", 1)[-1].split(":")[0]: name for name in listed.stdout.split()}


def etcd_module(version):
    etcd = "v" + image_names(version)["etcd"].rsplit(":", 1)[1].split("-")[0]
    module = HERE / "etcd" / etcd
    if not module.is_dir():
        raise Problem(f"kubeadm {version} wants etcd {etcd}, for which there is no module: {module}")
    return module
