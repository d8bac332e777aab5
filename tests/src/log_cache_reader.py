"""Calls a method of logcache.v1.Egress, as a client library does.

Arguments: address, method, and the request as JSON, with the names of its fields. Prints each
envelope of an answer as hexadecimal digits, or for `Meta` each source with its numbers; and finally
the status.
"""

import json
import sys

import grpc

TYPES = ["ANY", "LOG", "COUNTER", "GAUGE", "TIMER", "EVENT"]


def encoded(request):
    out = text(1, request.get("source_id", ""))
    for field, name in ((2, "start_time"), (3, "end_time"), (4, "limit"), (6, "descending")):
        if request.get(name):
            out += number(field << 3) + number(int(request[name]))
    for name in request.get("envelope_types", []):
        out += number(5 << 3) + number(TYPES.index(name))
    return out + text(7, request.get("name_filter", ""))


def lines(method, answer):
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
    call = channel.unary_unary("/logcache.v1.Egress/" + method)
    try:
        answer = call(encoded(json.loads(request)), timeout=60)
        for line in lines(method, answer):
            print(line)
        print("OK")
    except grpc.RpcError as error:
        print(error.code().name, error.details())


main()
