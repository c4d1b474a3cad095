"""What checks and benchmarks of schedpatch-extender share: a Prometheus that is only pretended, programs, files."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import ssl
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTBED = ROOT / "hack/testbed/testbed"


def vector(values):
    series = [{"metric": {"node": node}, "value": [time.time(), str(value)]} for node, value in values.items()]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


@contextlib.contextmanager
def pretended_prometheus(body):
    """Answers every query with the same body; gives its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def connect(port, ca=None):
    if not ca:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=ssl.create_default_context(cafile=ca))


def get(port, path, ca=None):
    connection = connect(port, ca)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def post(port, path, body, ca=None):
    connection = connect(port, ca)
    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
    return json.loads(connection.getresponse().read())


@contextlib.contextmanager
def program(words, port, ready="/readyz", seconds=30, ca=None, **more):
    """Runs a program until the end of the block; it begins when the program is ready."""
    process = subprocess.Popen(list(map(str, words)), **more)
    try:
        end = time.monotonic() + seconds
        while True:
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{words[0]} is not ready on port {port}: exit code {process.poll()}")
            with contextlib.suppress(OSError):
                if get(port, ready, ca)[0] == 200:
                    break
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()


def go_programs(out):
    """Builds the Go extender and the load generator."""
    go = subprocess.run([ROOT / "hack/tool", "go"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run([go, "build", "-trimpath", "-o", f"{out}/", "./..."], cwd=ROOT / "hack/go-extender", check=True)
    return out / "go-extender", out / "load"


def static(out, example=None):
    """Builds schedpatch-extender, or an example of its crate, without shared libraries."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / (example or "schedpatch-extender")
    subprocess.run(["hack/static", file, "schedpatch-extender", *([example] if example else [])], cwd=ROOT, check=True)
    return str(file)


def processor_seconds(*processes):
    """What these processes have used so far, in user and kernel mode."""
    fields = [pathlib.Path(f"/proc/{one.pid}/stat").read_text().rsplit(") ", 1)[1].split() for one in processes if one]
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")
