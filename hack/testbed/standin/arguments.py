"""Arguments as k3s takes them: configuration files first, then the command line; lists grow, the last of the rest wins."""

import os
import sys
from pathlib import Path

import yaml

CONFIG = "/etc/rancher/k3s/config.yaml"
DATA = "/var/lib/rancher/k3s"
SHORT = {"c": "config", "d": "data-dir", "t": "token", "s": "server"}
SWITCHES = {
    "cluster-init",
    "debug",
    "disable-cloud-controller",
    "disable-helm-controller",
    "disable-kube-proxy",
    "disable-network-policy",
    "protect-kernel-defaults",
    "secrets-encryption",
    "selinux",
}
LISTS = {
    "disable",
    "etcd-arg",
    "kube-apiserver-arg",
    "kube-cloud-controller-manager-arg",
    "kube-controller-manager-arg",
    "kube-proxy-arg",
    "kube-scheduler-arg",
    "kubelet-arg",
    "node-label",
    "node-taint",
    "tls-san",
}
VALUES = {
    "advertise-address",
    "cluster-cidr",
    "cluster-dns",
    "config",
    "data-dir",
    "flannel-backend",
    "https-listen-port",
    "node-ip",
    "node-name",
    "pause-image",
    "server",
    "service-cidr",
    "token",
    "write-kubeconfig",
    "write-kubeconfig-mode",
}
SECRETS = {"token", "agent-token", "datastore-endpoint"}


class Fatal(Exception):
    """What ends k3s before it serves, with status 1."""


def merged(words):
    """`server`, then what the files say, then the rest of the command line."""
    return [words[0], *from_files(config_file(words)), *words[1:]]


def config_file(words):
    if named := os.environ.get("K3S_CONFIG_FILE"):
        return named
    for index, word in enumerate(words):
        name, is_joined, value = word.partition("=")
        if word.startswith("-") and SHORT.get(name.lstrip("-"), name.lstrip("-")) == "config":
            return value if is_joined else words[index + 1]
    return CONFIG


def from_files(base):
    """The base file, then `BASE.d` in the order of names. `key` replaces what an earlier file said, `key+` appends."""
    directory = Path(f"{base}.d")
    files = sorted(file for file in directory.glob("*") if file.suffix in (".yaml", ".yml")) if directory.is_dir() else []
    values = {}
    for file in [Path(base), *files]:
        for key, value in read(file).items():
            name = key.removesuffix("+")
            is_added = key.endswith("+") and name in values
            values[name] = as_list(values[name]) + as_list(value) if is_added else value
    known = {name: as_list(value) for name, value in values.items() if is_known(name)}
    return [f"--{name}={as_word(each)}" for name, value in known.items() for each in value]


def read(file):
    try:
        content = yaml.safe_load(file.read_text())
    except FileNotFoundError:
        return {}
    except yaml.YAMLError as error:
        raise Fatal(f"yaml: {file}: {error}") from None
    if content is not None and not isinstance(content, dict):
        raise Fatal(f"yaml: {file}: cannot unmarshal into a map")
    return {str(key): value for key, value in (content or {}).items()}


def is_known(name):
    if name in SWITCHES | LISTS | VALUES:
        return True
    print(f'level=warning msg="Unknown flag --{name} found in config.yaml, skipping"', file=sys.stderr, flush=True)
    return False


def as_list(value):
    return value if isinstance(value, list) else [value]


def as_word(value):
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def parsed(words):
    """A dictionary: lists for what may be given several times, True for switches. An unknown flag is fatal."""
    found, words = {name: [] for name in LISTS}, list(words)
    while words:
        word = words.pop(0)
        name, is_joined, value = word.partition("=")
        name = SHORT.get(name.lstrip("-"), name.lstrip("-"))
        if not word.startswith("-") or name not in SWITCHES | LISTS | VALUES:
            raise Fatal(f"Incorrect Usage: flag provided but not defined: {word.partition('=')[0]}")
        if name in SWITCHES:
            found[name] = not is_joined or value == "true"
            continue
        if not is_joined:
            if not words:
                raise Fatal(f"Incorrect Usage: flag needs an argument: {word}")
            value = words.pop(0)
        if name in LISTS:
            found[name].append(value)
        else:
            found[name] = value
    return found


def shown(words):
    """As the annotation k3s.io/node-args shows them: name and value apart, secrets hidden."""
    split = []
    for word in words:
        split += word.split("=", 1) if word.startswith("--") else [word]
    for index, word in enumerate(split[:-1]):
        if word.startswith("-") and word.lstrip("-") in SECRETS:
            split[index + 1] = "********"
    return split
