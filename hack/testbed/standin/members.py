"""etcd's members: a server that joins asks the one that it is pointed at to count it in."""

import http.client
import json
import ssl
import time
from urllib.parse import urlsplit

from .arguments import Fatal

PATIENCE = 60


def join(server):
    """The members as etcd's --initial-cluster wants them; empty where this server begins the cluster or was in it."""
    if "server" not in server.given or (server.data / "server/db/etcd/member").exists():
        return []
    host, peer = urlsplit(server.given["server"]).hostname, f"https://{server.address}:2380"
    end = time.monotonic() + PATIENCE
    while True:
        try:
            members = ask(server, host, "list", {})
            if not any(peer in member["peerURLs"] for member in members):
                members = ask(server, host, "add", {"peerURLs": [peer]})
            return [f"{member.get('name') or server.name}={url}" for member in members for url in member["peerURLs"]]
        except (OSError, http.client.HTTPException, Fatal) as error:
            if time.monotonic() > end:
                raise Fatal(f"cannot join {host}: {error}") from None
        time.sleep(1)


def ask(server, host, what, request):
    keys = server.data / "server/tls/etcd"
    tls = ssl.create_default_context(cafile=keys / "ca.crt")
    tls.check_hostname = False
    tls.load_cert_chain(keys / "peer.crt", keys / "peer.key")
    connection = http.client.HTTPSConnection(host, 2379, context=tls, timeout=15)
    connection.request("POST", f"/v3/cluster/member/{what}", json.dumps(request))
    answer = connection.getresponse()
    content = json.loads(answer.read())
    if answer.status != 200:
        raise Fatal(f"etcd refuses to {what} members: {content.get('message', content)}")
    return content["members"]
