"""Receives series as Datadog does, after it has failed some requests.

Arguments: file for accepted points, then the answers to the first requests: a status, or `hang`.
Prints its port. Each accepted point is a line: name, time, value, tags. More than 400 series are too
large, and a name with `refused` in it is invalid. Ends with its standard input.
"""

import gzip
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

accepted, behaviors = open(sys.argv[1], "a"), list(sys.argv[2:])
lock = threading.Lock()
ended = threading.Event()


class Intake(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with lock:
            behavior = behaviors.pop(0) if behaviors else None
        if behavior == "hang":
            ended.wait(30)
            self.close_connection = True
            return
        if behavior:
            return self.answer(int(behavior), ["it misbehaves"])
        if self.path != "/api/v2/series" or self.headers["dd-api-key"] != "token":
            return self.answer(403, ["Forbidden"])
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        series = json.loads(body)["series"]
        if len(series) > 400:
            return self.answer(413, ["Payload too large"])
        if any("refused" in one["metric"] for one in series):
            return self.answer(400, ["invalid metric name"])
        with lock:
            for one in series:
                assert one["type"] == 3 and len(one["points"]) == 1, one
                point = one["points"][0]
                print(one["metric"], point["timestamp"], point["value"], *one["tags"], file=accepted)
            accepted.flush()
        self.answer(202, [])

    def answer(self, status, errors):
        text = json.dumps({"errors": errors}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Intake)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
ended.set()
