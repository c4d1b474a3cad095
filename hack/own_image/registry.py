"""A registry of one image that takes its time; runs in a node, where containerd takes localhost without TLS.

  python3 registry.py ARCHIVE PORT SECONDS      the layer takes so many seconds
"""

import contextlib
import http.server
import json
import subprocess
import sys
import tarfile
import time

PORT = 5099
CHUNK = 1 << 16


@contextlib.contextmanager
def served(bed, archive, seconds):
    """Serves an archive in the bed; gives the registry's address."""
    from .cluster import TESTBED

    command = [TESTBED, "exec", "--name", bed, "cp1", "python3", __file__, str(archive), str(PORT), str(seconds)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert "serves" in server.stdout.readline(), "the registry does not start"
        yield f"localhost:{PORT}"
    finally:
        server.terminate()
        server.wait(timeout=20)


def serve(archive, port, seconds):
    with tarfile.open(archive) as tar:
        index = json.load(tar.extractfile("index.json"))
        manifest = index["manifests"][0]["digest"]
        blobs = {member.name.rsplit("/", 1)[1]: tar.extractfile(member).read() for member in tar if member.name.startswith("blobs/")}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(is_head=True)

        def do_GET(self):
            self.answer()

        def answer(self, is_head=False):
            *_, kind, what = self.path.split("?")[0].split("/")
            if self.path.rstrip("/") == "/v2":
                return self.send(b"{}", "application/json", is_head)
            digest = what if what.startswith("sha256:") else manifest
            body = blobs.get(digest.removeprefix("sha256:"))
            if kind not in ("manifests", "blobs") or body is None:
                return self.send_error(404)
            media = index["manifests"][0]["mediaType"] if kind == "manifests" else "application/octet-stream"
            return self.send(body, media, is_head, digest)

        def send(self, body, media, is_head, digest=None):
            self.send_response(200)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(body)))
            if digest:
                self.send_header("docker-content-digest", digest)
            self.end_headers()
            if is_head:
                return
            pause = seconds * CHUNK / len(body) if len(body) > CHUNK else 0
            for at in range(0, len(body), CHUNK):
                self.wfile.write(body[at : at + CHUNK])
                time.sleep(pause)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print("serves", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
