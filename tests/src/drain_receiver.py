"""A server of syslog with octet counting that behaves badly until it is told not to.

Arguments: what it does with each connection, and for TLS the files of certificate and key:
`hangs`: reads nothing; `trickles`: reads a byte per second; `halves`: closes the connection in the
middle of the first message; `resets`: resets it at once. The line `receive` on standard input ends
that, and connections that are open are read to their end. Prints its port, and for each other line
how many connections there were, and the number at the end of each message, in the order of
connections and messages.
"""

import socket
import ssl
import struct
import sys
import threading

conduct, *tls = sys.argv[1:]
is_good = threading.Event()
received = []


def serve(connection, numbers):
    if conduct == "resets" and not is_good.is_set():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        return
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        connection = context.wrap_socket(connection, server_side=True)
    if conduct == "halves" and not is_good.is_set():
        connection.recv(500)
        connection.close()
        return
    if conduct == "hangs":
        is_good.wait()
    data = bytearray()
    while block := connection.recv(65536 if is_good.is_set() else 1):
        data += block
        while (space := data.find(b" ")) >= 0:
            end = space + 1 + int(data[:space])
            if len(data) < end:
                break
            numbers.append(data[space + 1 : end].split()[-1].decode())
            del data[:end]
        is_good.wait(0 if is_good.is_set() else 1)


def serve_all(listener):
    while True:
        connection, _ = listener.accept()
        numbers = []
        received.append(numbers)

        def run(connection=connection, numbers=numbers):
            try:
                serve(connection, numbers)
            except OSError as error:
                print(conduct, error, file=sys.stderr)

        threading.Thread(target=run, daemon=True).start()


listener = socket.socket()
# Little fits into the buffers of the system.
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen(128)
print(listener.getsockname()[1], flush=True)
threading.Thread(target=serve_all, args=[listener], daemon=True).start()
for line in sys.stdin:
    if line.strip() == "receive":
        is_good.set()
    else:
        print(len(received), *[number for of in received for number in of], flush=True)
