"""Keys, certificates and kubeconfigs. kubeadm makes them; they get the names and places that k3s gives them."""

import shutil
import subprocess

from bed import kubeadm

from .arguments import Fatal

# kubeconfigs by kubeadm's name, and where k3s has them below its data directory
KUBECONFIGS = {
    "super-admin.conf": "server/cred/admin.kubeconfig",
    "scheduler.conf": "server/cred/scheduler.kubeconfig",
    "controller-manager.conf": "server/cred/controller.kubeconfig",
    "kubelet.conf": "agent/kubelet.kubeconfig",
}
ALIASES = {"server-ca.crt": "ca.crt", "client-ca.crt": "ca.crt", "service.key": "sa.key"}


def make(server):
    """Once per server; the certificate authorities may be there already, as when another server began the cluster."""
    tls = server.data / "server/tls"
    if (server.data / "server/token").exists():
        return
    tls.mkdir(parents=True, exist_ok=True)
    work = server.data / "server/kubeadm"
    work.mkdir(exist_ok=True)
    config = work / "config.yaml"
    config.write_text(text(server, tls))
    run("kubeadm", "init", "phase", "certs", "all", "--config", config)
    run("kubeadm", "init", "phase", "kubeconfig", "all", "--config", config, "--kubeconfig-dir", work)
    for alias, name in ALIASES.items():
        (tls / alias).unlink(missing_ok=True)
        (tls / alias).symlink_to(name)
    (tls / "kube-scheduler").mkdir(exist_ok=True)
    for end in ("crt", "key"):
        shutil.copyfile(tls / f"apiserver.{end}", tls / f"kube-scheduler/kube-scheduler.{end}")
    for name, place in KUBECONFIGS.items():
        target = server.data / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(work / name, target)
        target.chmod(0o600)
    server.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(work / "super-admin.conf", server.kubeconfig)
    server.kubeconfig.chmod(0o600)
    (server.data / "server/token").write_text("stand-in\n")  # last: all is there


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Fatal(f"{' '.join(map(str, command[:4]))}: {done.stderr.strip() or done.stdout.strip()}")


def text(server, tls):
    names = ["127.0.0.1", "localhost", server.name, *server.given["tls-san"]]
    return f"""\
apiVersion: kubeadm.k8s.io/{kubeadm.api(server.version)}
kind: InitConfiguration
localAPIEndpoint: {{advertiseAddress: {server.address}, bindPort: {server.port}}}
nodeRegistration: {{name: {server.name}, criSocket: "unix://{server.socket}"}}
---
apiVersion: kubeadm.k8s.io/{kubeadm.api(server.version)}
kind: ClusterConfiguration
kubernetesVersion: {server.version}
certificatesDir: {tls}
controlPlaneEndpoint: "127.0.0.1:{server.port}"
networking: {{serviceSubnet: {server.services}}}
apiServer: {{certSANs: [{", ".join(names)}]}}
encryptionAlgorithm: ECDSA-P256
"""
