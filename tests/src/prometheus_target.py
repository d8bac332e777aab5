# Answers scrapes: with every type of metric at /metrics, with nothing at /hang, with 10 MB that are not
# metrics at /garbage, with 20 MB at /large. Prints its port; the arguments are certificate, key and
# authority, if it speaks TLS.
import gzip
import http.server
import ssl
import sys
import threading

METRICS = """# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",source_id="app-guid",instance_id="3"} %d.9
# TYPE queue gauge
queue{unit="entries",zone="b"} 1.5
# TYPE latency histogram
latency_bucket{le="0.50"} 2
latency_bucket{le="1000000"} 3
latency_bucket{le="+Inf"} 4
latency_sum 5.25
latency_count 4
# TYPE pause summary
pause{quantile="0.99"} 0.25
pause_sum 7
pause_count 8
unknown{text="a\\\\b\\"c\\n"} -3
# TYPE invalid counter
invalid -1
"""

scrapes = 0


class Target(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global scrapes
        if self.path == "/hang":
            threading.Event().wait()
        if self.path == "/trickle":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"a 1\n")
            self.wfile.flush()
            threading.Event().wait()
        if self.path == "/garbage":
            body = bytes(range(256)) * (10_000_000 // 256)
        elif self.path == "/large":
            body = b"a 1\n" * 5_000_000
        elif self.path == "/secret" and self.headers["Authorization"] != "Basic dTpw":
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        else:
            scrapes += 1
            body = (METRICS % scrapes).encode()
        self.send_response(200)
        if "gzip" in self.headers["Accept-Encoding"] and self.path == "/metrics":
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Target)
server.daemon_threads = True
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.load_verify_locations(sys.argv[3])
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_address[1], flush=True)
server.serve_forever()
