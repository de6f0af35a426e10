"""Unsigned numbers of the flexible protocol, seven bits a byte."""

from ottla.env.ports import Buffer


class Malformed(ValueError):
    """Bytes that do not follow the schema."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """A number of at most five bytes, and where it ends."""
    try:
        byte = data[position]
        if byte < 0x80:
            return byte, position + 1
        value = byte & 0x7F
        for shift in (7, 14, 21, 28):
            position += 1
            byte = data[position]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + 1
    except IndexError:
        raise Malformed(f"the message ends at byte {len(data)}, inside a number") from None
    raise Malformed(f"a number that ends at byte {position} has more than five bytes")


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]
