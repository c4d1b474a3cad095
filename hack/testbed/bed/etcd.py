"""Removes a member of a bed's etcd, through etcd's own JSON interface. Runs inside a node that stays."""

import http.client
import json
import ssl
import sys
import time

from .places import Problem

KEYS = "/etc/kubernetes/pki/etcd"
PORT = 2379
PATIENCE = 30  # etcd refuses while it has not been connected to all of its members for 5 s


def remove(name, address):
    """A member that has not started yet has no name; its address tells which it is."""
    for member in ask("list", {})["members"]:
        if member.get("name") == name or any(f"//{address}:" in url for url in member["peerURLs"]):
            remove_member(member["ID"])


def remove_member(identity):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return ask("remove", {"ID": identity})
        except (Problem, OSError):
            if time.monotonic() > end:
                raise
        time.sleep(1)


def ask(what, request):
    tls = ssl.create_default_context(cafile=f"{KEYS}/ca.crt")
    tls.load_cert_chain(f"{KEYS}/server.crt", f"{KEYS}/server.key")
    connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=tls, timeout=15)
    connection.request("POST", f"/v3/cluster/member/{what}", json.dumps(request))
    answer = connection.getresponse()
    content = json.loads(answer.read())
    if answer.status != 200:
        raise Problem(f"etcd refuses to {what} members: {content.get('message', content)}")
    return content


if __name__ == "__main__":
    try:
        remove(*sys.argv[1:])
    except (Problem, OSError, http.client.HTTPException) as problem:
        sys.exit(str(problem))
