"""Sends the messages in a file to a method of loggregator.v2.Ingress, unchanged.

Arguments: address, method, file of messages (each after its length, four bytes), and for TLS the
files of authority, certificate and key. Without a file: one envelope of each kind, encoded here.
Prints the status, and how many messages the transport has taken.
"""

import struct
import sys

import grpc


def integer(field, value):
    return number(field << 3) + number(value)


def double(field, value):
    return number(field << 3 | 1) + struct.pack("<d", value)


def envelope(message, timestamp=1_795_288_351_000_000_000):
    tags = {"job": "cell", "source_type": "APP/PROC/WEB", "request_id": "r 1"}
    out = integer(1, timestamp) + text(2, "app-guid")
    for key, value in tags.items():
        out += text(9, text(1, key) + text(2, value))
    out += text(3, text(1, "old") + text(2, integer(2, -7)))
    return out + text(8, "3") + message


def kinds():
    metric = lambda name, value: text(1, text(1, name) + text(2, text(1, "By") + double(2, value)))
    envelopes = [
        envelope(text(4, text(1, "to stdout \u00fc") + integer(2, 0))),
        envelope(text(4, text(1, "to stderr") + integer(2, 1))),
        envelope(text(5, text(1, "requests") + integer(2, 3) + integer(3, 17))),
        envelope(text(6, metric("memory", 1.5))),
        envelope(text(6, metric("memory", 1.5) + metric("disk", 2.5))),
        envelope(text(7, text(1, "http") + integer(2, 5) + integer(3, 1_500_000_005))),
        envelope(text(10, text(1, "crash") + text(2, "exit 1"))),
    ]
    return b"".join(text(1, one) for one in envelopes)


def messages(path):
    if not path:
        yield kinds()
        return
    with open(path, "rb") as file:
        while length := file.read(4):
            yield file.read(struct.unpack("<I", length)[0])


def main():
    address, method, path, *tls = sys.argv[1:]
    options = [("grpc.max_send_message_length", -1)]
    if tls:
        authority, certificate, key = [open(name, "rb").read() if name else None for name in tls]
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address, options)
    count = 0

    def counted():
        nonlocal count
        for message in messages(path):
            yield message
            count += 1

    path_of = method if method.startswith("/") else "/loggregator.v2.Ingress/" + method
    try:
        if path_of.endswith("/Send"):
            for message in counted():
                channel.unary_unary(path_of)(message, timeout=60)
        else:
            channel.stream_unary(path_of)(counted(), timeout=60)
        print("OK", count)
    except grpc.RpcError as error:
        print(error.code().name, count, error.details())


main()
