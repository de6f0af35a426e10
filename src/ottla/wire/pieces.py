"""Counts and texts as answers that are written by hand have them: `flexible` is the form of newer versions."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.wire.varint import uvarint

_COUNT: Final = Struct(">i")
_LENGTH: Final = Struct(">h")
_NULL: Final = -1


def count(number: int, flexible: bool) -> bytes:
    return uvarint(number + 1) if flexible else _COUNT.pack(number)


def text(value: str | None, flexible: bool) -> bytes:
    if value is None:
        return uvarint(0) if flexible else _LENGTH.pack(_NULL)
    encoded = value.encode()
    return (uvarint(len(encoded) + 1) if flexible else _LENGTH.pack(len(encoded))) + encoded
