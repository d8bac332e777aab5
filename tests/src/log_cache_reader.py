"""Calls a method of logcache.v1, as a client library does.

Arguments: address, method, and the request as JSON, with the names of its fields. Prints each
envelope of an answer as hexadecimal digits, or for `Meta` each source with its numbers, or for a
query its result as JSON; and finally the status.
"""

import json
import sys

import grpc

QUERIES = {"InstantQuery": ["query", "time"], "RangeQuery": ["query", "start", "end", "step"]}
RESULTS = {"InstantQuery": ["scalar", "vector", "matrix"], "RangeQuery": ["matrix"]}
TYPES = ["ANY", "LOG", "COUNTER", "GAUGE", "TIMER", "EVENT"]


def service(method):
    if method in QUERIES:
        return "logcache.v1.PromQLQuerier/"
    return "logcache.v1.Ingress/" if method == "Send" else "logcache.v1.Egress/"


def encoded(method, request):
    if method in QUERIES:
        names = enumerate(QUERIES[method], 1)
        return b"".join(text(field, request.get(name, "")) for field, name in names)
    out = text(1, request.get("source_id", ""))
    for field, name in ((2, "start_time"), (3, "end_time"), (4, "limit"), (6, "descending")):
        if request.get(name):
            out += number(field << 3) + number(int(request[name]))
    for name in request.get("envelope_types", []):
        out += number(5 << 3) + number(TYPES.index(name))
    return out + text(7, request.get("name_filter", ""))


def point(message):
    parts = dict(fields(message))
    return [parts[1].decode(), parts[2]]


def series(message):
    labels, points = {}, []
    for field, part in fields(message):
        if field == 1:
            entry = dict(fields(part))
            labels[entry[1].decode()] = entry.get(2, b"").decode()
        else:
            points.append(point(part))
    return [labels, points]


def result(method, answer):
    for field, part in fields(answer):
        kind = RESULTS[method][field - 1]
        value = point(part) if kind == "scalar" else [series(one) for _, one in fields(part)]
        yield json.dumps({"kind": kind, "value": value})


def lines(method, answer):
    if method in QUERIES:
        yield from result(method, answer)
        return
    for _, part in fields(answer):
        if method == "Meta":
            entry = dict(fields(part))
            info = dict(fields(entry[2]))
            numbers = " ".join(str(info.get(field, 0)) for field in range(1, 5))
            yield f"{entry[1].decode()} {numbers}"
        else:
            for _, envelope in fields(part):
                yield envelope.hex()


def main():
    address, method, request = sys.argv[1:]
    options = [("grpc.max_receive_message_length", 50 << 20)]
    channel = grpc.insecure_channel(address, options)
    call = channel.unary_unary("/" + service(method) + method)
    try:
        answer = call(encoded(method, json.loads(request)), timeout=60)
        for line in lines(method, answer):
            print(line)
        print("OK")
    except grpc.RpcError as error:
        print(error.code().name, error.details())


main()
