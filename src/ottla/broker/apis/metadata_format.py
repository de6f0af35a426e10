"""Answers to Metadata, written by hand: every client of a large cluster asks for thousands of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from ottla.broker.brokers import BrokerAddress
from ottla.env.slices import Rows
from ottla.model.errors import ErrorCode
from ottla.wire.pieces import count, text

RACKS: Final = 1
CLUSTER_ID: Final = 2
THROTTLED: Final = 3
OFFLINE: Final = 5
LEADER_EPOCHS: Final = 7
OPERATIONS: Final = 8
FLEXIBLE: Final = 9
IDS: Final = 10
CLUSTER_OPERATIONS_TO: Final = 10
ERROR_OF_ALL: Final = 13
NOT_ASKED_FOR: Final = -(2**31)  # of operations

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_LED: Final = Struct(">hii")  # error, partition, leader
_LED_EPOCH: Final = Struct(">hiii")
_NO_TAGS: Final = b"\x00"
_NO_ID: Final = bytes(16)


class Row(NamedTuple):
    code: ErrorCode
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class Topic(NamedTuple):
    code: ErrorCode
    name: str | None
    id: UUID | None
    is_internal: bool
    rows: Sequence[Row]
    operations: int = NOT_ASKED_FOR


class Answer(NamedTuple):
    brokers: Sequence[BrokerAddress]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[Topic]
    operations: int = NOT_ASKED_FOR
    code: ErrorCode = ErrorCode.none


def write_answer(version: int, answer: Answer) -> bytes:
    """What follows the header."""
    flexible = version >= FLEXIBLE
    parts: list[bytes] = []
    if version >= THROTTLED:
        parts.append(_INT.pack(0))
    parts.append(count(len(answer.brokers), flexible))
    for broker in answer.brokers:
        parts += (_INT.pack(broker.id), text(broker.host, flexible), _INT.pack(broker.port))
        if version >= RACKS:
            parts.append(text(broker.rack, flexible))
        if flexible:
            parts.append(_NO_TAGS)
    if version >= CLUSTER_ID:
        parts.append(text(answer.cluster_id, flexible))
    if version >= RACKS:
        parts.append(_INT.pack(answer.controller_id))
    parts.append(count(len(answer.topics), flexible))
    for topic in answer.topics:
        _write_topic(version, topic, parts)
    if OPERATIONS <= version <= CLUSTER_OPERATIONS_TO:
        parts.append(_INT.pack(answer.operations))
    if version >= ERROR_OF_ALL:
        parts.append(_SHORT.pack(answer.code.value))
    if flexible:
        parts.append(_NO_TAGS)
    return b"".join(parts)


def errors_of(version: int, answer: Answer) -> Iterator[ErrorCode]:
    if version >= ERROR_OF_ALL and answer.code is not ErrorCode.none:
        yield answer.code
    for topic in answer.topics:
        if topic.code is not ErrorCode.none:
            yield topic.code
        for row in Rows(topic.rows):
            if row.code is not ErrorCode.none:
                yield row.code


def _write_topic(version: int, topic: Topic, parts: list[bytes]) -> None:
    flexible = version >= FLEXIBLE
    parts += (_SHORT.pack(topic.code.value), text(topic.name, flexible))
    if version >= IDS:
        parts.append(topic.id.bytes if topic.id is not None else _NO_ID)
    if version >= RACKS:
        parts.append(b"\x01" if topic.is_internal else b"\x00")
    parts.append(count(len(topic.rows), flexible))
    parts += [_row(version, flexible, row) for row in Rows(topic.rows)]
    if version >= OPERATIONS:
        parts.append(_INT.pack(topic.operations))
    if flexible:
        parts.append(_NO_TAGS)


def _row(version: int, flexible: bool, row: Row) -> bytes:
    code, partition, leader, epoch, replicas, isr, offline = row
    if version >= LEADER_EPOCHS:
        head = _LED_EPOCH.pack(code.value, partition, leader, epoch)
    else:
        head = _LED.pack(code.value, partition, leader)
    where = head + _ids(replicas, flexible) + _ids(isr, flexible)
    if version >= OFFLINE:
        where += _ids(offline, flexible)
    return where + _NO_TAGS if flexible else where


@lru_cache(maxsize=4096)
def _ids(ids: tuple[int, ...], flexible: bool) -> bytes:
    """Of many thousand partitions most lie on the same few brokers as others do."""
    return count(len(ids), flexible) + Struct(f">{len(ids)}i").pack(*ids)
