"""Fields of messages of Protocol Buffers; both clients begin with this."""


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


