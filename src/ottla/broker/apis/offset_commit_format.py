"""Answers to OffsetCommit, written by hand: after Produce and Fetch it is what clients send most."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final
from uuid import UUID

from ottla.model.errors import ErrorCode
from ottla.wire.varint import uvarint

Topic = tuple[UUID | str | None, list[tuple[int, ErrorCode]]]
"""A topic's name, or from version 10 on its id, and what became of each partition. None is the id of zeros."""

THROTTLED: Final = 3
FLEXIBLE: Final = 8
BY_ID: Final = 10
_SIZE: Final = Struct(">i")
_SHORT: Final = Struct(">h")
_START: Final = Struct(">ii")  # correlation id, throttle time
_FLEXIBLE_START: Final = Struct(">iBi")  # no tags between the two
_ROW: Final = Struct(">ih")
_FLEXIBLE_ROW: Final = Struct(">ihB")
_NO_TAGS: Final = b"\x00"
_NO_ID: Final = bytes(16)


def write_answer(version: int, correlation_id: int, topics: Iterable[Topic]) -> bytes:
    """A whole frame."""
    listed = list(topics)
    parts = (
        _flexible(version, correlation_id, listed) if version >= FLEXIBLE else _plain(version, correlation_id, listed)
    )
    body = b"".join(parts)
    return _SIZE.pack(len(body)) + body


def _flexible(version: int, correlation_id: int, topics: list[Topic]) -> list[bytes]:
    parts = [_FLEXIBLE_START.pack(correlation_id, 0, 0), uvarint(len(topics) + 1)]
    row = _FLEXIBLE_ROW.pack
    for named, partitions in topics:
        if version >= BY_ID:
            parts.append(named.bytes if isinstance(named, UUID) else _NO_ID)
        else:
            assert isinstance(named, str)
            name = named.encode()
            parts += uvarint(len(name) + 1), name
        parts.append(uvarint(len(partitions) + 1))
        parts += [row(partition, code.value, 0) for partition, code in partitions]
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return parts


def _plain(version: int, correlation_id: int, topics: list[Topic]) -> list[bytes]:
    parts = [_START.pack(correlation_id, 0) if version >= THROTTLED else _SIZE.pack(correlation_id)]
    parts.append(_SIZE.pack(len(topics)))
    for named, partitions in topics:
        name = str(named).encode()
        parts += _SHORT.pack(len(name)), name, _SIZE.pack(len(partitions))
        parts += [_ROW.pack(partition, code.value) for partition, code in partitions]
    return parts
