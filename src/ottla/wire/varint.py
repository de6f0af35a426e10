"""Unsigned numbers of the flexible protocol, seven bits a byte, and the tagged fields that are made of them."""

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


def read_signed(data: Buffer, position: int) -> tuple[int, int]:
    """A number as Java holds it: in 32 bits, with a sign."""
    value, position = read_uvarint(data, position)
    return (value if value < 0x80000000 else _wrapped(value)), position


def read_length(data: Buffer, position: int) -> tuple[int, int]:
    """The length of a compact text or array, which is written one higher. To Kafka's readers any negative is null."""
    if position < len(data) and (value := data[position]) < 0x80:
        return value - 1, position + 1
    value, position = read_uvarint(data, position)
    return (value - 1 if value < 0x80000000 else _wrapped(value - 1)), position


def skip_tags(data: Buffer, position: int) -> int:
    """Where the tagged fields that begin at a position end."""
    if position < len(data) and not data[position]:  # nearly always there are none
        return position + 1
    count, position = read_signed(data, position)
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
        if position > len(data):
            raise Malformed(f"a tagged field ends at byte {position}, the message at {len(data)}")
    return position


def _wrapped(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


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
