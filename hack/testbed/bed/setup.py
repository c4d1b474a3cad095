"""All that a bed needs, once per machine."""

import time

from . import containerd, packages, programs
from .places import beds_directory, cache, say


def needs(version, systemd):
    install, unpack, helm = packages.missing(systemd)
    return bool(programs.missing(version) or install or unpack or helm or not containerd.store_is_current(version))


def setup(version, systemd=False):
    programs.known(version)
    begin = time.monotonic()
    with programs.locked():
        if not needs(version, systemd):
            return say(f"all that Kubernetes {version} needs is in {cache()}")
        packages.get(systemd)
        programs.build(version)
        containerd.prepare_store(version, environment(version))
    return say(f"set up for Kubernetes {version} in {time.monotonic() - begin:.0f} s")


def environment(version, node=None):
    """What processes of a node see. Nothing of the caller's: kubeadm would write its proxies into manifests."""
    path = packages.search_path(programs.home(version))
    variables = {
        "PATH": ":".join([*path, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "SCHEDPATCH_TOOLS": str(cache()),
        "SCHEDPATCH_BEDS": str(beds_directory()),
        "KUBECONFIG": "/etc/kubernetes/admin.conf",
        # What these programs would keep in the home directory, which is the machine's.
        "KUBECACHEDIR": "/var/cache/kubectl",
        "HELM_CACHE_HOME": "/var/cache/helm",
        "HELM_CONFIG_HOME": "/etc/helm",
        "HELM_DATA_HOME": "/var/lib/helm",
    }
    if node:
        variables |= {**node.marks, "SCHEDPATCH_BED": node.bed.name}
    return variables
