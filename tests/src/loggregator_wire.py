"""Fields of messages of Protocol Buffers; all clients begin with this."""

import struct


def number(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(field, value):
    value = value if isinstance(value, bytes) else value.encode()
    return number(field << 3 | 2) + number(len(value)) + value


def fields(message):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            at += 8
            yield key >> 3, struct.unpack("<d", message[at - 8 : at])[0]
        else:
            length = varint()
            at += length
            yield key >> 3, message[at - length : at]


