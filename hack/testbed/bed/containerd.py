"""A containerd of one's own: its configuration, starting it, and the prepared store of images that nodes begin with."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from . import images, packages, programs
from .places import HERE, Problem, say

NAMESPACE = "k8s.io"
PAUSE = "pause"
# The images that a node needs, and where its program is in each.
CONTENTS = {
    name: f"/usr/local/bin/{name}" for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
}
CONTENTS[PAUSE] = "/pause"
CONFIG = """\
version = 2
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.internal.v1.opt"]  # it would make a directory in the machine's /opt
[grpc]
  address = "{state}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  disable_apparmor = true
  # Root in a container often has no CAP_SYS_RESOURCE, and may not lower oom_score_adj.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def configure(file, root, state, pause):
    file.write_text(
        CONFIG.format(
            root=root, state=state, pause=pause, cni=packages.home("containernetworking-plugins") / "usr/lib/cni"
        )
    )


def ctr(state, *arguments):
    return ["ctr", "--address", f"{state}/containerd.sock", "--namespace", NAMESPACE, *map(str, arguments)]


def wait(process, state, log, seconds=30):
    """Until containerd answers; one that ended is a Problem at once."""
    end = time.monotonic() + seconds
    while not listens(f"{state}/containerd.sock"):
        if process.poll() is not None:
            raise Problem(f"containerd ended with status {process.returncode}; the end of its log:\n{tail(log)}")
        if time.monotonic() > end:
            raise Problem(f"containerd does not answer after {seconds} s; the end of its log:\n{tail(log)}")
        time.sleep(0.02)


def listens(address):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(address)
            return True
        except OSError:
            return False


def tail(log, lines=15):
    try:
        return "\n".join(Path(log).read_text(errors="replace").splitlines()[-lines:])
    except OSError as error:
        return f"({log}: {error.strerror})"


# The prepared store. Importing takes seconds per node; linking files that never change takes none.


def store(version):
    return programs.home(version) / "images"


def recipe(version):
    """What the store was made of; another recipe means another store."""
    stats = {name: os.stat(programs.home(version) / name) for name in CONTENTS if name != PAUSE}
    made_of = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
    return json.dumps({**made_of, PAUSE: (HERE / "pause.c").read_text()}, indent=1)


def pause_name(version):
    return (store(version) / "pause-name").read_text()


def store_is_current(version):
    try:
        return (store(version) / "recipe.json").read_text() == recipe(version)
    except OSError:
        return False


def prepare_store(version, environment):
    if store_is_current(version):
        return
    say(f"preparing the images of Kubernetes {version}: about 15 seconds")
    home = programs.home(version)
    packages.run(["gcc", "-static", "-Os", "-s", "-o", str(home / PAUSE), str(HERE / "pause.c")])
    names = programs.image_names(version)
    # The state is elsewhere, since the path of a socket must be short.
    with tempfile.TemporaryDirectory(dir=home, prefix=".images-") as work, tempfile.TemporaryDirectory() as state:
        root, log = Path(work, "store"), Path(work, "containerd.log")
        configure(Path(work, "config.toml"), root, state, names[PAUSE])
        with open(log, "w") as output:
            # Its own mount namespace: what it mounts while unpacking is gone with it.
            process = subprocess.Popen(
                ["unshare", "--mount", "containerd", "-c", f"{work}/config.toml"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            wait(process, state, log)
            for name, inside in CONTENTS.items():
                archive = Path(work, f"{name}.tar")
                images.write(archive, names[name], [inside], {inside: home / name})
                packages.run(ctr(state, "images", "import", archive), env=environment)
                archive.unlink()
        finally:
            process.terminate()
            process.wait()
        (root / "pause-name").write_text(names[PAUSE])
        (root / "recipe.json").write_text(recipe(version))
        shutil.rmtree(store(version), ignore_errors=True)
        root.rename(store(version))


def copy_store(version, root):
    """A node's own store: databases are copied, the rest, which nobody changes, is linked if the disk is the same."""

    def link(source, target):
        if not source.endswith(".db"):
            try:
                return os.link(source, target)
            except OSError:
                pass
        return shutil.copy2(source, target)

    shutil.copytree(store(version), root, symlinks=True, copy_function=link, dirs_exist_ok=True)
