"""kubeadm makes the node: `init` on the first, `join --control-plane` on the others."""

from . import network
from .places import minor

TOKEN = "abcdef.0123456789abcdef"  # a secret of nobody: no packet leaves the bed
CERTIFICATE_KEY = "5c" * 32
KUBECONFIG = "/etc/kubernetes/admin.conf"
SOCKET = "unix:///run/containerd/containerd.sock"


def command(node, config):
    if node.number == 1:
        # No kube-proxy and no CoreDNS: their images cannot be had from a registry, and no test needs them.
        return ["kubeadm", "init", "--upload-certs", "--skip-phases=preflight,addon", "--config", str(config)]
    return ["kubeadm", "join", "--skip-phases=preflight", "--config", str(config)]


def config(node, version, cgroup_v1, cgroup):
    return first(node, version, cgroup_v1, cgroup) if node.number == 1 else other(node, version, cgroup)


def first(node, version, cgroup_v1, cgroup):
    return f"""\
apiVersion: kubeadm.k8s.io/{api(version)}
kind: InitConfiguration
bootstrapTokens:
- token: {TOKEN}
  ttl: 24h0m0s
  groups: ["system:bootstrappers:kubeadm:default-node-token"]
  usages: [signing, authentication]
certificateKey: {CERTIFICATE_KEY}
localAPIEndpoint: {{advertiseAddress: {node.address}, bindPort: 443}}
{registration(node, version, cgroup)}
---
apiVersion: kubeadm.k8s.io/{api(version)}
kind: ClusterConfiguration
kubernetesVersion: {version}
controlPlaneEndpoint: "{network.SERVICE_ADDRESS}:443"
networking: {{serviceSubnet: {network.SERVICES}}}
{"encryptionAlgorithm: ECDSA-P256" if minor(version) >= 31 else ""}
---
{kubelet(version, cgroup_v1)}"""


def other(node, version, cgroup):
    return f"""\
apiVersion: kubeadm.k8s.io/{api(version)}
kind: JoinConfiguration
discovery:
  bootstrapToken: {{apiServerEndpoint: "10.99.0.1:443", token: {TOKEN}, unsafeSkipCAVerification: true}}
controlPlane:
  certificateKey: {CERTIFICATE_KEY}
  localAPIEndpoint: {{advertiseAddress: {node.address}, bindPort: 443}}
{registration(node, version, cgroup)}
"""


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
