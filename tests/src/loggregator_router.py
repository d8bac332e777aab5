"""A router of Loggregator: receives calls of BatchSender, and ends each as the original does.

Arguments: file for the envelopes that were received (each a line in hexadecimal), number of calls
to refuse first, maximum size of a message, and for mutual TLS the files of authority, certificate
and key. Prints the port it listens on. Ends when its standard input does.
"""

import sys
import threading
from concurrent import futures

import grpc


class Router(grpc.GenericRpcHandler):
    def __init__(self, path, refusals):
        self.file = open(path, "w")
        self.refusals = refusals
        self.lock = threading.Lock()

    def service(self, call):
        if call.method != "/loggregator.v2.Ingress/BatchSender":
            return None
        return grpc.stream_unary_rpc_method_handler(self.receive)

    def receive(self, messages, context):
        with self.lock:
            self.refusals -= 1
            refuses = self.refusals >= 0
        if refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        lines = []
        for message in messages:
            parts = list(fields(message))
            assert all(field == 1 for field, _ in parts), "a batch consists of envelopes"
            envelopes = [envelope for _, envelope in parts]
            assert len(envelopes) <= 100, "a batch is as small as that of an agent"
            lines += [envelope.hex() + "\n" for envelope in envelopes]
        with self.lock:
            self.file.writelines(lines)
            self.file.flush()
        context.abort(grpc.StatusCode.UNKNOWN, "EOF")


def main():
    path, refusals, bytes_max, *tls = sys.argv[1:]
    options = [("grpc.max_receive_message_length", int(bytes_max))]
    server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers((Router(path, int(refusals)),))
    if tls:
        authority, certificate, key = [open(name, "rb").read() for name in tls]
        credentials = grpc.ssl_server_credentials([(key, certificate)], authority, True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(None)


main()
