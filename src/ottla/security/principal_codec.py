"""A principal as bytes, as Kafka's DefaultKafkaPrincipalBuilder writes it for a request that is passed on.

version (2 bytes)  type (compact string)  name (compact string)  by token? (1 byte)  tagged fields
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from ottla.security.authorizer import Principal

_VERSION: Final = Struct(">h")
_NEWEST: Final = 0


class UnreadablePrincipal(Exception):
    """Bytes that are not a principal, or one of a version that is not known."""


def encode_principal(principal: Principal) -> bytes:
    return _VERSION.pack(_NEWEST) + _string(principal.type) + _string(principal.name) + b"\x00\x00"


def decode_principal(data: bytes) -> Principal:
    try:
        (version,) = _VERSION.unpack_from(data)
        if not 0 <= version <= _NEWEST:
            raise UnreadablePrincipal(f"a principal of version {version}; known is {_NEWEST}")
        type_, position = _read_string(data, _VERSION.size)
        name, position = _read_string(data, position)
        data[position]  # by token or not: nobody has a use for it yet
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise UnreadablePrincipal(f"{len(data)} bytes are not a principal: {error}") from None
    return Principal(type_, name)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _uvarint(len(encoded) + 1) + encoded


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    size, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    end = position + size - 1
    if size < 1 or end > len(data):
        raise IndexError(f"a string of {size - 1} bytes at {position}")
    return data[position:end].decode(), end
