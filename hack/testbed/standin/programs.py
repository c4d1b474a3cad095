"""The command lines of what a real k3s has built in. `server` is the one that they belong to."""


def etcd(server, initial):
    tls = server.data / "server/tls/etcd"
    peer, client = f"https://{server.address}:2380", f"https://{server.address}:2379"
    state = "existing" if initial else "new"
    return [
        "etcd",
        f"--name={server.name}",
        f"--data-dir={server.data}/server/db/etcd",
        f"--listen-client-urls=https://127.0.0.1:2379,{client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster={','.join(initial or [f'{server.name}={peer}'])}",
        f"--initial-cluster-state={state}",
        "--client-cert-auth=true",
        "--peer-client-cert-auth=true",
        f"--trusted-ca-file={tls}/ca.crt",
        f"--cert-file={tls}/server.crt",
        f"--key-file={tls}/server.key",
        f"--peer-trusted-ca-file={tls}/ca.crt",
        f"--peer-cert-file={tls}/peer.crt",
        f"--peer-key-file={tls}/peer.key",
        *flags({}, server.given["etcd-arg"]),
    ]


def apiserver(server):
    tls = server.data / "server/tls"
    fixed = {
        "advertise-address": server.address,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "client-ca-file": f"{tls}/ca.crt",
        "enable-admission-plugins": "NodeRestriction",
        "etcd-cafile": f"{tls}/etcd/ca.crt",
        "etcd-certfile": f"{tls}/apiserver-etcd-client.crt",
        "etcd-keyfile": f"{tls}/apiserver-etcd-client.key",
        "etcd-servers": "https://127.0.0.1:2379",
        "kubelet-client-certificate": f"{tls}/apiserver-kubelet-client.crt",
        "kubelet-client-key": f"{tls}/apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "profiling": "false",
        "proxy-client-cert-file": f"{tls}/front-proxy-client.crt",
        "proxy-client-key-file": f"{tls}/front-proxy-client.key",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": f"{tls}/front-proxy-ca.crt",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "secure-port": server.port,
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": f"{tls}/sa.pub",
        "service-account-signing-key-file": f"{tls}/sa.key",
        "service-cluster-ip-range": server.services,
        "tls-cert-file": f"{tls}/apiserver.crt",
        "tls-private-key-file": f"{tls}/apiserver.key",
    }
    return ["kube-apiserver", *flags(fixed, server.given["kube-apiserver-arg"])]


def controller_manager(server):
    tls, kubeconfig = server.data / "server/tls", f"{server.data}/server/cred/controller.kubeconfig"
    fixed = {
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "cluster-signing-cert-file": f"{tls}/ca.crt",
        "cluster-signing-key-file": f"{tls}/ca.key",
        "controllers": "*,tokencleaner",
        "kubeconfig": kubeconfig,
        "profiling": "false",
        "root-ca-file": f"{tls}/ca.crt",
        "service-account-private-key-file": f"{tls}/sa.key",
        "use-service-account-credentials": "true",
        **server.leader_election,
    }
    return ["kube-controller-manager", *flags(fixed, server.given["kube-controller-manager-arg"])]


def scheduler(server):
    kubeconfig, tls = f"{server.data}/server/cred/scheduler.kubeconfig", f"{server.data}/server/tls/kube-scheduler"
    fixed = {
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "kubeconfig": kubeconfig,
        "profiling": "false",
        "secure-port": "10259",
        "tls-cert-file": f"{tls}/kube-scheduler.crt",
        "tls-private-key-file": f"{tls}/kube-scheduler.key",
        **server.leader_election,
    }
    return ["kube-scheduler", *flags(fixed, server.given["kube-scheduler-arg"])]


def kubelet(server):
    fixed = {
        "anonymous-auth": "false",
        "authentication-token-webhook": "true",
        "authorization-mode": "Webhook",
        "client-ca-file": f"{server.data}/server/tls/ca.crt",
        "container-runtime-endpoint": f"unix://{server.socket}",
        "hostname-override": server.name,
        "kubeconfig": f"{server.data}/agent/kubelet.kubeconfig",
        "node-ip": server.address,
    }
    return ["kubelet", *flags(fixed, server.given["kubelet-arg"])]


def flags(fixed, extra):
    """k3s sorts them; what a person gives replaces what k3s would have said, and is passed as often as it was given."""
    given = {each.partition("=")[0] for each in extra}
    words = [f"--{name}={value}" for name, value in fixed.items() if name not in given]
    return sorted(words + [f"--{each}" for each in extra], key=lambda word: word.partition("=")[0])
