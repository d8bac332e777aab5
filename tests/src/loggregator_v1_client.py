"""Reads envelopes of version 1 over a websocket, or from a method of plumbing.Doppler.

Arguments: URL of a websocket, or `address/method`; the number of envelopes to read; and for gRPC the
shard, the application and the filter (`logs`, `metrics` or nothing). A client of a websocket whose
count is 0 reads until the stream is closed; with a count below 0 it first reads nothing until a line
arrives on standard input. Prints `open`, then for each envelope a line: its type, its origin, its
tag `source_id`, and the beginning of its text or its name; at the end how the stream was closed.
"""

import socket
import sys

import grpc
import websocket

TYPES = {4: "http", 5: "log", 6: "value", 7: "counter", 8: "error", 9: "container"}
TEXTS = {4: 6, 5: 1, 6: 1, 7: 1, 8: 3, 9: 1}


def line_of(envelope):
    kind, origin, source, message = 0, "", "-", b""
    for field, value in fields(envelope):
        if field == 1:
            origin = value.decode()
        elif field == 2:
            kind = value
        elif 7 <= field <= 12:
            message = value
        elif field == 17:
            tag = dict(fields(value))
            if tag.get(1) == b"source_id":
                source = tag.get(2, b"").decode()
    inside = dict(fields(message))
    text = inside[TEXTS[kind]][:40].decode("utf-8", "replace").split(" ")[0]
    if TYPES[kind] == "counter":
        text += f" {inside[2]}"
    return f"{TYPES[kind]} {origin} {source} {text}"


def read_websocket(url, count):
    # A small buffer, so that a client that reads nothing is soon noticed.
    options = ((socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024),) if count < 0 else ()
    try:
        stream = websocket.create_connection(url, timeout=60, sockopt=options)
    except websocket.WebSocketBadStatusException as error:
        print("refused", error.status_code, flush=True)
        return
    print("open", flush=True)
    if count < 0:
        sys.stdin.readline()
    seen = 0
    while count <= 0 or seen < count:
        kind, data = stream.recv_data(control_frame=True)
        if kind == websocket.ABNF.OPCODE_BINARY:
            print(line_of(data))
            seen += 1
        elif kind == websocket.ABNF.OPCODE_CLOSE:
            print("closed", int.from_bytes(data[:2], "big"), data[2:].decode(), flush=True)
            return
        sys.stdout.flush()
    stream.close()


def read_grpc(target, count, shard, app, wanted):
    address, method = target.split("/", 1)
    request = text(1, shard)
    request += text(2, text(1, app) + {"logs": text(2, ""), "metrics": text(3, ""), "": b""}[wanted])
    channel = grpc.insecure_channel(address)
    stream = channel.unary_stream("/plumbing.Doppler/" + method)(request, timeout=60)
    seen = 0
    try:
        stream.initial_metadata()
        print("open", flush=True)
        for message in stream:
            for field, envelope in fields(message):
                print(line_of(envelope))
                seen += 1
            sys.stdout.flush()
            if seen >= count:
                stream.cancel()
                return
    except grpc.RpcError as error:
        print(error.code().name, error.details(), flush=True)


def main():
    target, count, *rest = sys.argv[1:]
    if target.startswith("ws:"):
        read_websocket(target, int(count))
    else:
        read_grpc(target, int(count), *rest)


main()
