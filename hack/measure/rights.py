"""The agent's own account, with the rights that the chart gives it, and no others."""

import json

from .bed import ROOT

NAMESPACE = "kube-system"
ACCOUNT = "schedpatch"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
DIRECTORY = "/etc/kubernetes/schedpatch-measure"
KUBECONFIG = f"{DIRECTORY}/agent.conf"


def account(node):
    """Makes it, and gives the path of its kubeconfig in the node."""
    names = ("clusterrole", "clusterrolebinding", "role-events", "role-pods", "rolebinding-events", "rolebinding-pods",
             "serviceaccount", "lease", "role-release", "role-kubelets")
    shown = [word for name in names for word in ("--show-only", f"templates/{name}.yaml")]
    chart = ROOT / "charts/schedpatch"
    objects = node.run("helm", "template", ACCOUNT, chart, "-n", NAMESPACE, "--set", "existingConfigMap=none", *shown)
    node.kubectl("apply", "-f", "-", text=objects)
    token = node.kubectl("-n", NAMESPACE, "create", "token", ACCOUNT, "--duration=24h")
    node.path(DIRECTORY).mkdir(exist_ok=True)
    node.path(f"{DIRECTORY}/token").write_text(token.strip())
    node.path(KUBECONFIG).write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "agent",
        "clusters": [{"name": "bed", "cluster": {"server": "https://10.96.0.1:443",
                                                 "certificate-authority": "/etc/kubernetes/pki/ca.crt"}}],
        "users": [{"name": "agent", "user": {"tokenFile": f"{DIRECTORY}/token"}}],
        "contexts": [{"name": "agent", "context": {"cluster": "bed", "user": "agent"}}],
    }))
    return KUBECONFIG
