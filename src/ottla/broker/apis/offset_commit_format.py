"""OffsetCommit, read and written by hand: after Produce and Fetch it is what clients send most.

Requests are read here if they are as most are: of a flexible version, short, without metadata and tagged fields. What
is unusual in any way, or malformed, is left to the decoder of all APIs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from struct import Struct, error
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH
from ottla.wire.varint import uvarint

Named = UUID | str | None
"""A topic's name, or from version 10 on its id. None is the id of zeros."""
Answered = tuple[Named, Iterable[tuple[int, ErrorCode]]]
"""A topic, and what became of each partition."""


class Topic(NamedTuple):
    named: Named
    rows: Sequence[tuple[int, int, int]]
    """Partition, offset, leader epoch."""
    metadata: Sequence[str | None] | None
    """Of each; None if none has any."""


class Request(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    kept_ms: int | None
    """How long, if the client says so."""
    topics: Sequence[Topic]


OWN_RETENTION: Final = 4  # the last version in which a client can say how long
THROTTLED: Final = 3
LEADER_EPOCHS: Final = 6
INSTANCES: Final = 7
FLEXIBLE: Final = 8
BY_ID: Final = 10
_ONE_MS: Final = timedelta(milliseconds=1)
_USUAL_ROW: Final = Struct(">iqixx")  # no metadata, no tagged fields
_FINE: Final = Struct(">i2x")
_FLEXIBLE_FINE: Final = Struct(">i3x")
_SIZE: Final = Struct(">i")
_SHORT: Final = Struct(">h")
_START: Final = Struct(">ii")  # correlation id, throttle time
_FLEXIBLE_START: Final = Struct(">iBi")  # no tags between the two
_ROW: Final = Struct(">ih")
_FLEXIBLE_ROW: Final = Struct(">ihB")
_NO_TAGS: Final = b"\x00"
_NO_ID: Final = bytes(16)


def read_usual(version: int, data: bytes) -> Request | None:
    """None if it is not one of those, whatever it is."""
    if version < FLEXIBLE:
        return None
    try:
        group_id, at = _text(data, 0)
        (generation,) = _SIZE.unpack_from(data, at)
        member_id, at = _text(data, at + 4)
        instance_id, at = (None, at + 1) if data[at] == 0 else _text(data, at)
        count, at = data[at] - 1, at + 1
        topics = []
        for _ in range(_short(count)):
            named: Named
            if version >= BY_ID:
                named, at = _id(data[at : at + 16]), at + 16
            else:
                named, at = _text(data, at)
            count, at = _short(data[at] - 1), at + 1
            end = at + _USUAL_ROW.size * count
            rows = usual_rows(data[at:end])
            if rows is None or data[end]:
                return None
            topics.append(Topic(named, rows, None))
            at = end + 1
        return None if data[at] else Request(group_id, generation, member_id, instance_id, None, topics)
    except (error, IndexError, ValueError):
        return None


def usual_rows(block: bytes) -> list[tuple[int, int, int]] | None:
    """Partition, offset and leader epoch of each; None if there is more to say of any."""
    if block[16::18].strip(b"\x00\x01") or block[17::18].strip(b"\x00"):
        return None
    return list(_USUAL_ROW.iter_unpack(block))


def _text(data: bytes, at: int) -> tuple[str, int]:
    size = data[at]
    if not 0 < size < 0x80:
        raise ValueError("null, or long")
    end = at + size
    return data[at + 1 : end].decode(), end


def _short(count: int) -> int:
    if not 0 <= count < 0x7F:
        raise ValueError("null, or long")
    return count


def _id(of: bytes) -> UUID | None:
    return UUID(bytes=of) if of != _NO_ID else None


def from_entity(version: int, entity: Any) -> Request:
    """Of any version, as the decoder of all APIs gives it."""
    epochs = version >= LEADER_EPOCHS
    topics = [
        Topic(
            topic.topic_id if version >= BY_ID else topic.name,
            [
                (row.partition_index, row.committed_offset, row.committed_leader_epoch if epochs else NO_EPOCH)
                for row in topic.partitions
            ],
            [row.committed_metadata for row in topic.partitions],
        )
        for topic in entity.topics
    ]
    kept_ms = entity.retention_time // _ONE_MS if version <= OWN_RETENTION else -1
    return Request(
        entity.group_id,
        entity.generation_id_or_member_epoch,
        entity.member_id,
        entity.group_instance_id if version >= INSTANCES else None,
        None if kept_ms == -1 else kept_ms,
        topics,
    )


def write_answer(version: int, correlation_id: int, topics: Iterable[Answered]) -> bytes:
    """A whole frame."""
    row = _FLEXIBLE_ROW.pack if version >= FLEXIBLE else _ROW.pack
    no_tags = (0,) if version >= FLEXIBLE else ()
    packed = [
        (named, [row(partition, code.value, *no_tags) for partition, code in partitions])
        for named, partitions in topics
    ]  # fmt: skip
    return _frame(version, correlation_id, packed)


def write_all_fine(version: int, correlation_id: int, topics: Sequence[Topic]) -> bytes:
    """The same for a request in which every partition was committed; a topic without any is not told of."""
    row = _FLEXIBLE_FINE.pack if version >= FLEXIBLE else _FINE.pack
    packed = [(topic.named, [row(partition) for partition, _, _ in topic.rows]) for topic in topics if topic.rows]
    return _frame(version, correlation_id, packed)


def _frame(version: int, correlation_id: int, topics: list[tuple[Named, list[bytes]]]) -> bytes:
    if version >= FLEXIBLE:
        parts = _flexible(version, correlation_id, topics)
    else:
        parts = _plain(version, correlation_id, topics)
    body = b"".join(parts)
    return _SIZE.pack(len(body)) + body


def _flexible(version: int, correlation_id: int, topics: list[tuple[Named, list[bytes]]]) -> list[bytes]:
    parts = [_FLEXIBLE_START.pack(correlation_id, 0, 0), uvarint(len(topics) + 1)]
    for named, rows in topics:
        if version >= BY_ID:
            parts.append(named.bytes if isinstance(named, UUID) else _NO_ID)
        else:
            assert isinstance(named, str)
            name = named.encode()
            parts += uvarint(len(name) + 1), name
        parts.append(uvarint(len(rows) + 1))
        parts += rows
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return parts


def _plain(version: int, correlation_id: int, topics: list[tuple[Named, list[bytes]]]) -> list[bytes]:
    parts = [_START.pack(correlation_id, 0) if version >= THROTTLED else _SIZE.pack(correlation_id)]
    parts.append(_SIZE.pack(len(topics)))
    for named, rows in topics:
        name = str(named).encode()
        parts += _SHORT.pack(len(name)), name, _SIZE.pack(len(rows))
        parts += rows
    return parts
