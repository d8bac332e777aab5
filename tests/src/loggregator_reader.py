"""Reads envelopes from a method of loggregator.v2.Egress, as a client library does.

Arguments: address, method, request as JSON, number of envelopes to read, and for TLS the files of
authority, certificate and key. The request has `shard_id`, `deterministic_name`, `preferred`, and
`selectors`, each a list of source, kind and names; with `pause`, nothing is read until a line
arrives on standard input. Prints `open` once the stream is open, and for each envelope a line: its
kind, its source, its name or the beginning of its text, and the increment of a counter. Envelopes
that a counter states as dropped count as read.
"""

import json
import sys

import grpc

KINDS = {"log": 2, "counter": 3, "gauge": 4, "timer": 5, "event": 6}
MESSAGES = {4: "log", 5: "counter", 6: "gauge", 7: "timer", 10: "event"}


def encoded(request):
    out = text(1, request.get("shard_id", "")) + text(5, request.get("deterministic_name", ""))
    if request.get("preferred", True):
        out += number(3 << 3) + b"\x01"
    for source, kind, *names in request["selectors"]:
        message = b"".join(text(1, name) for name in names)
        selector = text(1, source) + (text(KINDS[kind], message) if kind else b"")
        out += text(4, selector)
    return out


def line_of(envelope):
    """Returns the line to print, and the number of envelopes that it counts for."""
    source, kind, name, delta = "", "none", "", 0
    for field, value in fields(envelope):
        if field == 2:
            source = value.decode()
        elif field in MESSAGES:
            kind = MESSAGES[field]
            names = []
            for inner, part in fields(value):
                if inner == 1 and kind == "gauge":
                    names.append(next(value for key, value in fields(part) if key == 1).decode())
                elif inner == 1:
                    name = part[:40].decode("utf-8", "replace")
                elif inner == 2 and kind == "counter":
                    delta = part
            name = ",".join(sorted(names)) or name
    stands_for = delta if (kind, source, name) == ("counter", "reverse_log_proxy", "dropped") else 1
    return f"{kind} {source} {name.split(' ')[0]} {delta}", stands_for


def main():
    address, method, request, count, *tls = sys.argv[1:]
    request, count = json.loads(request), int(count)
    if tls:
        authority, certificate, key = [open(name, "rb").read() if name else None for name in tls]
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        options = [("grpc.ssl_target_name_override", "localhost")]
        channel = grpc.secure_channel(address, credentials, options)
    else:
        channel = grpc.insecure_channel(address)
    path = method if method.startswith("/") else "/loggregator.v2.Egress/" + method
    stream = channel.unary_stream(path)(encoded(request), timeout=120)
    seen = 0
    try:
        stream.initial_metadata()
        if stream.code.__self__._state.code is None:
            print("open", flush=True)
        if request.get("pause"):
            sys.stdin.readline()
        for message in stream:
            if method == "Receiver":
                envelopes = [message]
            else:
                envelopes = [value for field, value in fields(message) if field == 1]
            for envelope in envelopes:
                line, stands_for = line_of(envelope)
                print(line)
                seen += stands_for
            sys.stdout.flush()
            if seen >= count:
                stream.cancel()
                return
        print("OK", flush=True)
    except grpc.RpcError as error:
        print(error.code().name, error.details(), flush=True)


main()
