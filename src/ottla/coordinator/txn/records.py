"""Records of `__transaction_state`, to and from bytes.

    key (0)     transactional id
    value       version, producer id, producer epoch, timeout, state, partitions by topic (null if Empty), last update,
                start; in version 1, which is flexible, tagged: 0 previous producer id, 1 next producer id, 2 the
                client's transaction version, 3 next producer epoch (nobody writes it yet)

Kafka writes version 1 from `transaction.version` 1 on.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final

from ottla.coordinator.machine import StoredRecord
from ottla.coordinator.txn.transaction import Transaction, TxnState
from ottla.model.errors import OttlaError
from ottla.model.names import NO_PRODUCER_ID, TopicPartition
from ottla.wire.varint import read_length, read_uvarint, skip_tags, uvarint

KEY_TYPE: Final = 0
_PLAIN, _FLEXIBLE = 0, 1
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_LONG_TAG: Final = Struct(">BBq")
_SHORT_TAG: Final = Struct(">BBh")
_KEY: Final = Struct(">hh")
_START: Final = Struct(">hqhib")  # version, producer id, epoch, timeout, state
_TIMES: Final = Struct(">qq")
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION = 0, 1, 2


# -- writing


@lru_cache(maxsize=1024)  # an id is written three times for each transaction
def write_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY.pack(KEY_TYPE, len(name)) + name


def record_of(transactional_id: str, transaction: Transaction, transaction_version: int) -> StoredRecord:
    return StoredRecord(write_key(transactional_id), write_value(transaction, transaction_version))


def tombstone(transactional_id: str) -> StoredRecord:
    return StoredRecord(write_key(transactional_id), None)


def write_value(transaction: Transaction, transaction_version: int) -> bytes:
    flexible = transaction_version >= 1
    partitions = None if transaction.state is TxnState.EMPTY else transaction.partitions
    parts = [
        _START.pack(
            _FLEXIBLE if flexible else _PLAIN,
            transaction.producer_id,
            transaction.epoch,
            transaction.timeout_ms,
            transaction.state,
        ),
        _topics(partitions, flexible),
        _TIMES.pack(transaction.updated_ms, transaction.start_ms),
    ]
    if flexible:
        parts.append(_tags(transaction))
    return b"".join(parts)


@lru_cache(maxsize=1024)  # most transactions write to what the one before wrote to
def _topics(partitions: tuple[TopicPartition, ...] | None, flexible: bool) -> bytes:
    topics = _by_topic(partitions) if partitions is not None else None
    return b"".join(_flexible_topics(topics) if flexible else _plain_topics(topics))


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _flexible_topics(topics: dict[str, list[int]] | None) -> list[bytes]:
    if topics is None:
        return [b"\x00"]
    parts = [uvarint(len(topics) + 1)]
    for topic, numbers in topics.items():
        name = topic.encode()
        packed = Struct(f">{len(numbers)}i").pack(*numbers)
        parts += [uvarint(len(name) + 1), name, uvarint(len(numbers) + 1), packed, b"\x00"]
    return parts


def _plain_topics(topics: dict[str, list[int]] | None) -> list[bytes]:
    if topics is None:
        return [_INT.pack(-1)]
    parts = [_INT.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_SHORT.pack(len(name)), name, Struct(f">{len(numbers) + 1}i").pack(len(numbers), *numbers)]
    return parts


def _tags(transaction: Transaction) -> bytes:
    """How many, and each."""
    count, tags = 0, b""
    if transaction.previous_producer_id != NO_PRODUCER_ID:
        count, tags = 1, _LONG_TAG.pack(_PREVIOUS_ID, _LONG.size, transaction.previous_producer_id)
    if transaction.next_producer_id != NO_PRODUCER_ID:
        count, tags = count + 1, tags + _LONG_TAG.pack(_NEXT_ID, _LONG.size, transaction.next_producer_id)
    if transaction.client_version:
        count, tags = count + 1, tags + _SHORT_TAG.pack(_CLIENT_VERSION, _SHORT.size, transaction.client_version)
    return uvarint(count) + tags


# -- reading


def read_key(key: bytes) -> str | None:
    """The transactional id; None for a key of a kind that is not known here."""
    try:
        kind, size = _KEY.unpack_from(key)
        return key[4 : 4 + size].decode() if kind == KEY_TYPE else None
    except (StructError, UnicodeDecodeError) as wrong:
        raise OttlaError(f"a transaction's record has the unreadable key {key.hex()}: {wrong}") from wrong


def read_value(value: bytes) -> Transaction | None:
    """None for a version that is not known here, as one that a newer Kafka wrote before a downgrade."""
    try:
        (version,) = _SHORT.unpack_from(value)
        if version not in (_PLAIN, _FLEXIBLE):
            return None
        _, producer_id, epoch, timeout_ms, state = _START.unpack_from(value)
        partitions, at = (_read_plain if version == _PLAIN else _read_flexible)(value, _START.size)
        updated_ms, start_ms = _TIMES.unpack_from(value, at)
        tags = _read_tags(value, at + _TIMES.size) if version == _FLEXIBLE else {}
        return Transaction(
            producer_id,
            epoch,
            timeout_ms,
            TxnState(state),
            partitions,
            start_ms,
            updated_ms,
            tags.get(_CLIENT_VERSION, 0),
            tags.get(_PREVIOUS_ID, NO_PRODUCER_ID),
            tags.get(_NEXT_ID, NO_PRODUCER_ID),
        )
    except (StructError, IndexError, ValueError) as wrong:
        raise OttlaError(f"a transaction's record has the unreadable value {value.hex()}: {wrong}") from wrong


def _read_plain(value: bytes, at: int) -> tuple[tuple[TopicPartition, ...], int]:
    (topics,) = _INT.unpack_from(value, at)
    at += _INT.size
    partitions: list[TopicPartition] = []
    for _ in range(topics):
        (size,) = _SHORT.unpack_from(value, at)
        at += _SHORT.size
        topic = value[at : at + size].decode()
        at += size
        (count,) = _INT.unpack_from(value, at)
        numbers = Struct(f">{count}i").unpack_from(value, at + _INT.size)
        at += (count + 1) * _INT.size
        partitions += [TopicPartition(topic, number) for number in numbers]
    return tuple(partitions), at


def _read_flexible(value: bytes, at: int) -> tuple[tuple[TopicPartition, ...], int]:
    topics, at = read_length(value, at)
    partitions: list[TopicPartition] = []
    for _ in range(topics):
        size, at = read_length(value, at)
        topic = value[at : at + size].decode()
        count, at = read_length(value, at + size)
        numbers = Struct(f">{count}i").unpack_from(value, at)
        at = skip_tags(value, at + count * _INT.size)
        partitions += [TopicPartition(topic, number) for number in numbers]
    return tuple(partitions), at


def _read_tags(value: bytes, at: int) -> dict[int, int]:
    found = {}
    count, at = read_uvarint(value, at)
    for _ in range(count):
        tag, at = read_uvarint(value, at)
        size, at = read_uvarint(value, at)
        found[tag] = int.from_bytes(value[at : at + size], "big", signed=True)
        at += size
    return found
