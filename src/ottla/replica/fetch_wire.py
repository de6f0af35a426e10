"""Fetch as a follower speaks it, version 17: requests and answers by hand, since there are thousands a second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct, error
from typing import Final, NamedTuple
from uuid import UUID

from ottla.log.epochs import EpochEnd
from ottla.wire.varint import Malformed, read_length, read_uvarint, skip_tags, uvarint

VERSION: Final = 17
API_KEY: Final = 1

Key = tuple[UUID, int]

_HEAD: Final = Struct(">iiibii")  # longest wait, fewest bytes, most bytes, isolation, session, its epoch
_PARTITION: Final = Struct(">iiqiqib")  # with the number of tagged fields
_REPLICA: Final = Struct(">bbbiqb")  # one tagged field, its number 1, its size, who, in which epoch, no tagged fields
_REPLICA_SIZE: Final = 13
_NUMBER: Final = Struct(">i")
_ANSWER: Final = Struct(">ihi")  # throttle time, error, session
_ROW: Final = Struct(">ihqqq")
_ABORTED_SIZE: Final = 17
_EPOCH_END: Final = Struct(">iq")


class Wish(NamedTuple):
    """What is asked of one partition."""

    current_leader_epoch: int
    offset: int
    last_fetched_epoch: int
    start_offset: int
    max_bytes: int


class Limits(NamedTuple):
    max_wait_ms: int
    min_bytes: int
    max_bytes: int


class AnswerHead(NamedTuple):
    throttle_ms: int
    code: int
    session_id: int


class AnswerRow(NamedTuple):
    key: Key
    code: int
    high_watermark: int
    start_offset: int
    records: memoryview
    diverging: EpochEnd | None


def request(
    replica: int,
    replica_epoch: int,
    limits: Limits,
    session: tuple[int, int],
    wishes: Iterable[tuple[Key, Wish]],
    forgotten: Iterable[Key],
) -> bytes:
    parts = [_HEAD.pack(*limits, 0, *session)]
    topics: dict[UUID, list[bytes]] = {}
    for (topic_id, number), wish in wishes:
        topics.setdefault(topic_id, []).append(_PARTITION.pack(number, *wish, 0))
    parts.append(uvarint(len(topics) + 1))
    for topic_id, rows in topics.items():
        parts += (topic_id.bytes, uvarint(len(rows) + 1), *rows, b"\x00")
    gone: dict[UUID, list[bytes]] = {}
    for topic_id, number in forgotten:
        gone.setdefault(topic_id, []).append(_NUMBER.pack(number))
    parts.append(uvarint(len(gone) + 1))
    for topic_id, rows in gone.items():
        parts += (topic_id.bytes, uvarint(len(rows) + 1), *rows, b"\x00")
    parts.append(b"\x01")  # no rack
    parts.append(_REPLICA.pack(1, 1, _REPLICA_SIZE, replica, replica_epoch, 0))
    return b"".join(parts)


def read_head(body: memoryview) -> AnswerHead:
    try:
        return AnswerHead(*_ANSWER.unpack_from(body))
    except error:
        raise Malformed(f"an answer to Fetch has only {len(body)} bytes") from None


def read_rows(body: memoryview) -> Iterator[AnswerRow]:
    """Records are views into the answer. Malformed if it is not what it should be."""
    try:
        yield from _rows(body)
    except error:
        raise Malformed(f"an answer to Fetch ends at byte {len(body)}, in the middle") from None


def _rows(body: memoryview) -> Iterator[AnswerRow]:
    topics, at = read_length(body, _ANSWER.size)
    for _ in range(topics):
        topic_id = UUID(bytes=bytes(body[at : at + 16]))
        rows, at = read_length(body, at + 16)
        for _ in range(rows):
            number, code, high_watermark, _, start_offset = _ROW.unpack_from(body, at)
            aborted, at = read_length(body, at + _ROW.size)
            at += max(aborted, 0) * _ABORTED_SIZE + _NUMBER.size  # and the preferred replica
            size, at = read_length(body, at)
            end = at + max(size, 0)
            records, at = body[at:end], end
            diverging = None
            tags, at = read_uvarint(body, at)
            for _ in range(tags):
                tag, at = read_uvarint(body, at)
                length, at = read_uvarint(body, at)
                if tag == 0:
                    diverging = EpochEnd(*_EPOCH_END.unpack_from(body, at))
                at += length
            yield AnswerRow((topic_id, number), code, high_watermark, start_offset, records, diverging)
        at = skip_tags(body, at)
