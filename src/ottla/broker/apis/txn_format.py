"""EndTxn, and AddPartitionsToTxn as clients send it, read and written by hand: most of what a small transaction asks.

Requests are read here if they are as most are: short, and without tagged fields. What is unusual in any way, or
malformed, is left to the decoder of all APIs. Answers are written here, all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from struct import Struct, unpack_from
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.broker.long_requests import SMALL_BYTES
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.wire.pieces import count, text

FLEXIBLE: Final = 3  # of both
NEXT_EPOCH: Final = 5
_REMEMBERED: Final = 256  # clients of transactions' first version ask the same for each, to the byte
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_PRODUCER: Final = Struct(">qh")
_PRODUCER_AND_OUTCOME: Final = Struct(">qhB")
_OUTCOMES: Final = (False, True)
_MOST_IN_A_BYTE: Final = 0x7F
_NO_TAGS: Final = b"\x00"
_SIZE_AND_ID: Final = Struct(">ii")
# After the size: correlation id, throttle time; in flexible versions no tags between the two.
_START: Final = Struct(">ii")
_FLEXIBLE_START: Final = Struct(">ixi")
_ROW: Final = Struct(">ih")
_FLEXIBLE_ROW: Final = Struct(">ihx")
_ENDED: Final = Struct(">iiih")
_ENDED_FLEXIBLE: Final = Struct(">iixihx")
_ENDED_WITH_PRODUCER: Final = Struct(">iixihqhx")


class End(NamedTuple):
    transactional_id: str
    producer: ProducerEpoch
    is_commit: bool


class Topic(NamedTuple):
    name: str
    partitions: Sequence[int]


class Additions(NamedTuple):
    transactional_id: str
    producer: ProducerEpoch
    topics: Sequence[Topic]
    partitions: tuple[TopicPartition, ...]
    """Each once."""
    all_fine: bytes
    """The answer if they are, after its correlation id."""


def partitions_of(topics: Iterable[Topic]) -> tuple[TopicPartition, ...]:
    return tuple({TopicPartition(topic.name, number): None for topic in topics for number in topic.partitions})


def additions(version: int, transactional_id: str, producer: ProducerEpoch, topics: Sequence[Topic]) -> Additions:
    partitions = partitions_of(topics)
    answer = write_added(version, 0, in_order(topics, dict.fromkeys(partitions, ErrorCode.none)))
    return Additions(transactional_id, producer, topics, partitions, answer[_SIZE_AND_ID.size :])


# -- reading


def read_end(version: int, body: Buffer) -> End | None:
    """None if it is not as most are, whatever it is."""
    return _read_end(version, bytes(body)) if len(body) <= SMALL_BYTES else None


@lru_cache(maxsize=_REMEMBERED)
def _read_end(version: int, data: bytes) -> End | None:
    flexible = version >= FLEXIBLE
    try:
        name, at = _text(data, 0, flexible)
        producer_id, epoch, outcome = _PRODUCER_AND_OUTCOME.unpack_from(data, at)
        if not _ends_at(data, at + _PRODUCER_AND_OUTCOME.size, flexible):
            return None
        return End(name, ProducerEpoch(producer_id, epoch), _OUTCOMES[outcome])
    except (StructError, IndexError, ValueError):
        return None


def read_additions(version: int, body: Buffer) -> Additions | None:
    """Of a client, and None if it is not as most are."""
    return _read_additions(version, bytes(body)) if len(body) <= SMALL_BYTES else None


@lru_cache(maxsize=_REMEMBERED)
def _read_additions(version: int, data: bytes) -> Additions | None:
    flexible = version >= FLEXIBLE
    try:
        name, at = _text(data, 0, flexible)
        producer_id, epoch = _PRODUCER.unpack_from(data, at)
        topic_count, at = _count(data, at + _PRODUCER.size, flexible)
        topics = []
        for _ in range(topic_count):
            topic, at = _text(data, at, flexible)
            size, at = _count(data, at, flexible)
            topics.append(Topic(topic, unpack_from(f">{size}i", data, at)))
            at += size * _INT.size
            if flexible:
                if data[at]:
                    return None
                at += 1
        if not _ends_at(data, at, flexible):
            return None
        return additions(version, name, ProducerEpoch(producer_id, epoch), topics)
    except (StructError, IndexError, ValueError):
        return None


def _text(data: bytes, at: int, flexible: bool) -> tuple[str, int]:
    if flexible:
        size, at = _in_a_byte(data, at)
    else:
        (size,) = _SHORT.unpack_from(data, at)
        at += _SHORT.size
    end = at + size
    if not at <= end <= len(data):
        raise ValueError("null, or longer than the request")
    return data[at:end].decode(), end


def _count(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        return _in_a_byte(data, at)
    (size,) = _INT.unpack_from(data, at)
    if not 0 <= size <= len(data):
        raise ValueError("null, or longer than the request")
    return size, at + _INT.size


def _in_a_byte(data: bytes, at: int) -> tuple[int, int]:
    size = data[at]
    if not 0 < size <= _MOST_IN_A_BYTE:
        raise ValueError("null, or long")
    return size - 1, at + 1


def _ends_at(data: bytes, at: int, flexible: bool) -> bool:
    return data[at:] == _NO_TAGS if flexible else at == len(data)


# -- writing whole frames


def write_ended(version: int, correlation_id: int, code: ErrorCode, producer: ProducerEpoch) -> bytes:
    if version >= NEXT_EPOCH:
        return _ENDED_WITH_PRODUCER.pack(_ENDED_WITH_PRODUCER.size - 4, correlation_id, 0, code.value, *producer)
    ended = _ENDED_FLEXIBLE if version >= FLEXIBLE else _ENDED
    return ended.pack(ended.size - 4, correlation_id, 0, code.value)


def write_all_fine(correlation_id: int, asked: Additions) -> bytes:
    return _SIZE_AND_ID.pack(len(asked.all_fine) + 4, correlation_id) + asked.all_fine


def in_order(
    asked: Iterable[Topic], codes: Mapping[TopicPartition, ErrorCode]
) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
    """As they were asked about, those that were named twice too; what is wrong in itself stands first."""
    order = {key: place for place, key in enumerate(codes)}
    found = []
    for topic in asked:
        keys = sorted((TopicPartition(topic.name, number) for number in topic.partitions), key=order.__getitem__)
        found.append((topic.name, [(key.partition, codes[key]) for key in keys]))
    return found


def write_added(
    version: int, correlation_id: int, topics: Sequence[tuple[str, Iterable[tuple[int, ErrorCode]]]]
) -> bytes:
    """To a client: what became of each partition."""
    flexible = version >= FLEXIBLE
    start, row = (_FLEXIBLE_START, _FLEXIBLE_ROW) if flexible else (_START, _ROW)
    parts = [start.pack(correlation_id, 0), count(len(topics), flexible)]
    for name, codes in topics:
        rows = [row.pack(number, code.value) for number, code in codes]
        parts += text(name, flexible), count(len(rows), flexible), *rows
        if flexible:
            parts.append(_NO_TAGS)
    if flexible:
        parts.append(_NO_TAGS)
    body = b"".join(parts)
    return _INT.pack(len(body)) + body
