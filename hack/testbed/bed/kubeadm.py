"""kubeadm makes the node: `init` on the first, `join --control-plane` on the others."""

from . import network, probes
from .places import address, minor

TOKEN = "abcdef.0123456789abcdef"  # a secret of nobody: no packet leaves the bed
CERTIFICATE_KEY = "5c" * 32
KUBECONFIG = "/etc/kubernetes/admin.conf"
SOCKET = "unix:///run/containerd/containerd.sock"


def command(task, config):
    if task.through is None:
        # No kube-proxy and no CoreDNS: their images cannot be had from a registry, and no test needs them.
        return ["kubeadm", "init", "--upload-certs", "--skip-phases=preflight,addon", "--config", str(config)]
    return ["kubeadm", "join", "--skip-phases=preflight", "--config", str(config)]


def share_certificates(config):
    """What `join` needs: kubeadm keeps the shared certificates in the cluster for two hours only."""
    return ["kubeadm", "init", "phase", "upload-certs", "--upload-certs", "--config", str(config)]


def config(node, task, cgroup_v1, cgroup):
    return first(node, task, cgroup_v1, cgroup) if task.through is None else other(node, task, cgroup)


def first(node, task, cgroup_v1, cgroup):
    version = task.version
    return f"""\
apiVersion: kubeadm.k8s.io/{api(version)}
kind: InitConfiguration
bootstrapTokens:
- token: {TOKEN}
  ttl: 0s
  groups: ["system:bootstrappers:kubeadm:default-node-token"]
  usages: [signing, authentication]
certificateKey: {CERTIFICATE_KEY}
localAPIEndpoint: {{advertiseAddress: {node.address}, bindPort: 443}}
{registration(node, version, cgroup)}
{patches(task)}
---
apiVersion: kubeadm.k8s.io/{api(version)}
kind: ClusterConfiguration
kubernetesVersion: {version}
controlPlaneEndpoint: "{network.SERVICE_ADDRESS}:443"
networking: {{serviceSubnet: {network.SERVICES}}}
{"encryptionAlgorithm: ECDSA-P256" if minor(version) >= 31 else ""}
---
{kubelet(version, cgroup_v1)}"""


def other(node, task, cgroup):
    endpoint = f"{address(task.through)}:443"
    return f"""\
apiVersion: kubeadm.k8s.io/{api(task.version)}
kind: JoinConfiguration
discovery:
  bootstrapToken: {{apiServerEndpoint: "{endpoint}", token: {TOKEN}, unsafeSkipCAVerification: true}}
controlPlane:
  certificateKey: {CERTIFICATE_KEY}
  localAPIEndpoint: {{advertiseAddress: {node.address}, bindPort: 443}}
{registration(node, task.version, cgroup)}
{patches(task)}
"""


def patches(task):
    return f"patches: {{directory: {probes.DIRECTORY}}}" if task.quick_probes else ""


def api(version):
    return "v1beta4" if minor(version) >= 31 else "v1beta3"


def registration(node, version, cgroup):
    arguments = {"node-ip": node.address, "cgroup-root": cgroup}
    if minor(version) >= 31:
        extra = "[" + ", ".join(f"{{name: {k}, value: {v}}}" for k, v in arguments.items()) + "]"
    else:
        extra = "{" + ", ".join(f"{k}: {v}" for k, v in arguments.items()) + "}"
    return f"""\
nodeRegistration:
  name: {node.name}
  criSocket: "{SOCKET}"
  taints: []
  kubeletExtraArgs: {extra}"""


def kubelet(version, cgroup_v1):
    # Images cannot be pulled again, so none is collected; a full disk of the machine is no reason to evict.
    return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failSwapOn: false
{"failCgroupV1: false" if cgroup_v1 and minor(version) >= 31 else ""}
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}}
resolvConf: ""
"""
