"""A scheduler extender: prints each call as a line of JSON, and refuses every node to pods labelled e2e=refused."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ADDRESS = ("127.0.0.1", 18889)


class Extender(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # the scheduler keeps its connections

    def do_POST(self):
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pod, nodes = given["Pod"]["metadata"], given["NodeNames"]
        print(json.dumps({"path": self.path, "pod": pod["name"], "nodes": nodes}), flush=True)
        refused = pod.get("labels", {}).get("e2e") == "refused"
        answer = {"NodeNames": [] if refused else nodes,
                  "FailedNodes": {node: "the extender says no" for node in nodes} if refused else {}}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(ADDRESS, Extender)
print("listening", flush=True)
server.serve_forever()
