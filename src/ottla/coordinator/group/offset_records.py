"""Records of committed offsets, to and from bytes. A start reads them by the hundred thousand: so by hand.

Key: type 1 (0 in logs of old), group, topic, partition. Value, by its version: offset, leader epoch (3 and later),
metadata, time of the commit, time of expiry (1 only), topic id (4, tagged).
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.machine import StoredRecord
from ottla.model.errors import OttlaError
from ottla.model.names import NO_EPOCH, NO_TIMESTAMP
from ottla.wire.varint import read_uvarint, uvarint

KEY_TYPES: Final = (0, 1)
_KEY_TYPE: Final = 1
_WITH_EXPIRY, _WITH_EPOCH, _FLEXIBLE = 1, 3, 4
_TOPIC_ID_TAG: Final = 0

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_KEY_START: Final = Struct(">hh")
_PLAIN_START: Final = Struct(">hqh")  # versions 0 to 2: version, offset, size of the metadata
_EPOCH_START: Final = Struct(">hqih")  # version 3
_FLEXIBLE_START: Final = Struct(">hqi")  # version 4; the size of the metadata is a varint
_TWO_LONGS: Final = Struct(">qq")
_USUAL: Final = Struct(">hqiBq3s16s")  # version 4 with a topic id and without metadata
_NO_TAGS: Final = b"\x00"
_ONE_TAG: Final = b"\x01\x00\x10"  # how many, which, and the size of a topic id


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    commit_ms: int = NO_TIMESTAMP
    expire_ms: int = NO_TIMESTAMP
    """Only where a client of old set it; -1 otherwise."""
    topic_id: UUID | None = None


# -- writing


def tombstone(key: OffsetKey) -> StoredRecord:
    return StoredRecord(write_key(key), None)


def write_key(key: OffsetKey) -> bytes:
    return key_start(key.group, key.topic) + _INT.pack(key.partition)


def key_start(group: str, topic: str) -> bytes:
    """The key of all partitions of a topic, up to their numbers."""
    named, of = group.encode(), topic.encode()
    return b"".join((_KEY_START.pack(_KEY_TYPE, len(named)), named, _SHORT.pack(len(of)), of))


partition_in_key: Final = _INT.pack


def usual_value(offset: int, leader_epoch: int, commit_ms: int, topic_id: bytes) -> bytes:
    """What `write_value` gives for a commit without metadata, of a topic that has an id."""
    return _USUAL.pack(_FLEXIBLE, offset, leader_epoch, 1, commit_ms, _ONE_TAG, topic_id)


def write_value(committed: CommittedOffset) -> bytes:
    """In version 4, or in 1 if the offset has a time of its own to expire at."""
    metadata = committed.metadata.encode()
    if committed.expire_ms != NO_TIMESTAMP:
        start = _PLAIN_START.pack(_WITH_EXPIRY, committed.offset, len(metadata))
        return start + metadata + _TWO_LONGS.pack(committed.commit_ms, committed.expire_ms)
    return b"".join(
        (
            _FLEXIBLE_START.pack(_FLEXIBLE, committed.offset, committed.leader_epoch),
            uvarint(len(metadata) + 1),
            metadata,
            _LONG.pack(committed.commit_ms),
            _NO_TAGS if committed.topic_id is None else _ONE_TAG + committed.topic_id.bytes,
        )
    )


def key_size(group: str, topic: str) -> int:
    return _KEY_START.size + len(group.encode()) + _SHORT.size + len(topic.encode()) + _INT.size


def value_size(metadata: str, *, has_topic_id: bool, expires: bool) -> int:
    size = len(metadata.encode())
    if expires:
        return _PLAIN_START.size + size + _TWO_LONGS.size
    tags = len(_ONE_TAG) + 16 if has_topic_id else len(_NO_TAGS)
    return _FLEXIBLE_START.size + len(uvarint(size + 1)) + size + _LONG.size + tags


# -- reading


def read_key(key: bytes) -> OffsetKey:
    try:
        _, size = _KEY_START.unpack_from(key)
        group_end = 4 + size
        (size,) = _SHORT.unpack_from(key, group_end)
        topic_end = group_end + 2 + size
        (partition,) = _INT.unpack_from(key, topic_end)
        return OffsetKey(key[4:group_end].decode(), key[group_end + 2 : topic_end].decode(), partition)
    except (error, UnicodeDecodeError) as wrong:
        raise OttlaError(f"a committed offset has the unreadable key {key.hex()}: {wrong}") from wrong


def offset_in(value: bytes) -> int:
    """Only the offset, which stands at the same place in every version."""
    return int(_LONG.unpack_from(value, 2)[0])


def read_value(value: bytes) -> CommittedOffset:
    if len(value) == _USUAL.size:
        version, offset, epoch, size, commit_ms, tag, named = _USUAL.unpack(value)
        if version == _FLEXIBLE and size == 1 and tag == _ONE_TAG:
            return CommittedOffset(offset, epoch, "", commit_ms, NO_TIMESTAMP, _id(named))
    try:
        (version,) = _SHORT.unpack_from(value)
        if version == _WITH_EPOCH:
            _, offset, epoch, size = _EPOCH_START.unpack_from(value)
            metadata, at = _text(value, _EPOCH_START.size, size)
            return CommittedOffset(offset, epoch, metadata, _LONG.unpack_from(value, at)[0])
        if version == _FLEXIBLE:
            return _read_flexible(value)
        if 0 <= version < _WITH_EPOCH:
            _, offset, size = _PLAIN_START.unpack_from(value)
            metadata, at = _text(value, _PLAIN_START.size, size)
            commit_ms, expire_ms = (
                _TWO_LONGS.unpack_from(value, at)
                if version == _WITH_EXPIRY
                else (*_LONG.unpack_from(value, at), NO_TIMESTAMP)
            )
            return CommittedOffset(offset, NO_EPOCH, metadata, commit_ms, expire_ms)
    except (error, ValueError) as wrong:
        raise OttlaError(f"a committed offset has the unreadable value {value.hex()}: {wrong}") from wrong
    raise OttlaError(f"a committed offset is of version {version}, which is newer than those known here (0 to 4)")


@lru_cache(1024)
def _id(of: bytes) -> UUID:
    return UUID(bytes=of)


def _text(value: bytes, at: int, size: int) -> tuple[str, int]:
    end = at + size
    return value[at:end].decode(), end


def _read_flexible(value: bytes) -> CommittedOffset:
    _, offset, epoch = _FLEXIBLE_START.unpack_from(value)
    size, at = read_uvarint(value, _FLEXIBLE_START.size)
    metadata, at = _text(value, at, size - 1)
    (commit_ms,) = _LONG.unpack_from(value, at)
    tags, at = read_uvarint(value, at + 8)
    topic_id = None
    for _ in range(tags):
        tag, at = read_uvarint(value, at)
        size, at = read_uvarint(value, at)
        if tag == _TOPIC_ID_TAG:
            topic_id = _id(value[at : at + size])
        at += size
    return CommittedOffset(offset, epoch, metadata, commit_ms, topic_id=topic_id)
