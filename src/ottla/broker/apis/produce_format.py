"""How Produce's requests and answers look, in all versions; read and written by hand.

A reader is handed bytes of strangers: every length and count is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from uuid import UUID

from ottla.broker.current_leaders import CurrentLeader
from ottla.env.slices import MOST_ROWS, Rows, is_sliced, numbers
from ottla.record.validate import wrong_at_first_sight
from ottla.replica.partition import Appended
from ottla.wire.codec import MalformedRequest
from ottla.wire.pieces import count, text
from ottla.wire.varint import read_length, skip_tags

FLEXIBLE: Final = 9
_TOPIC_IDS: Final = 13
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_TWO_I32: Final = Struct(">ii")
_ACKS_TIMEOUT: Final = Struct(">hi")
_RESULT: Final = Struct(">ihqq")
_RESULT_WITH_START: Final = Struct(">ihqqq")
_LONGEST_TEXT: Final = 0x7FFF
_REPLACED: Final = "\ufffd"  # stands where a text was not UTF-8
_SMALLEST_BATCH: Final = 64
_EMPTY_ROWS: Final = 1000  # topics and partitions without records that are put up with
_AT_ONCE: Final = 1000  # topics and partitions that are no trouble to anybody else


class ManyRows(Exception):
    """Nobody should wait for a request like this: it is to be read and answered in slices (env/slices.py)."""


class Row(NamedTuple):
    """One partition of the request; `batch` is None where the client sent null."""

    number: int
    batch: memoryview | None


class Topic(NamedTuple):
    encoded: memoryview  # the name or the id as it came, and as it goes back
    name: str | None
    topic_id: UUID | None
    rows: Sequence[Row]


class Request(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[Topic]


def read(version: int, body: memoryview) -> Request:
    """ManyRows if it should be done in slices, and is not."""
    try:
        request = _read_flexible(body, version) if version >= FLEXIBLE else _read_legacy(body)
    except (IndexError, StructError, ValueError) as error:
        raise MalformedRequest(f"Produce version {version} cannot be read: {error}") from error
    return _breathing(request) if is_sliced() else request


def _breathing(request: Request) -> Request:
    """Whoever goes through its rows lets others have their turn."""
    return request._replace(topics=Rows(topic._replace(rows=Rows(topic.rows)) for topic in Rows(request.topics)))


def merged(request: Request, version: int) -> Request:
    """As Kafka takes it: a partition named twice is one, and a topic without partitions is none."""
    named = {(topic.topic_id or topic.name, row.number) for topic in request.topics for row in topic.rows}
    names = {name for name, _ in named}
    if len(named) == sum(len(topic.rows) for topic in request.topics) and len(names) == len(request.topics):
        return request
    topics: dict[str | UUID | None, Topic] = {}
    rows: dict[str | UUID | None, dict[int, Row]] = {}
    for topic in request.topics:
        key = topic.topic_id or topic.name
        topics[key] = topic
        known = rows.setdefault(key, {})
        for row in topic.rows:
            before = known.get(row.number)
            # the last records count, but for an error that was found before
            if before is None or wrong_at_first_sight(before.batch or b"", version) is None:
                known[row.number] = row
    request = request._replace(
        topics=[topic._replace(rows=list(rows[key].values())) for key, topic in topics.items() if rows[key]]
    )
    return _breathing(request) if is_sliced() else request


def _read_flexible(data: memoryview, version: int) -> Request:
    length, at = read_length(data, 0)
    transactional_id = None
    if length >= 0:
        transactional_id = _text(data, at, length)
        at += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, at)
    topic_count, at = read_length(data, at + 6)
    left = _rows_left(data, topic_count)
    topics = []
    for _ in numbers(topic_count):
        start = at
        name = topic_id = None
        if version >= _TOPIC_IDS:
            at += 16
            topic_id = UUID(bytes=bytes(data[start:at]))
        else:
            length, at = read_length(data, at)
            if length < 0:
                raise ValueError("a topic has no name")
            name = _text(data, at, length)
            at += length
        encoded = data[start:at]
        if name is not None and _REPLACED in name:
            encoded = memoryview(text(name, flexible=True))
        row_count, at = read_length(data, at)
        left = _rows_left(data, row_count, left)
        rows = []
        for _ in numbers(row_count):
            index = _I32.unpack_from(data, at)[0]
            length, at = read_length(data, at + 4)
            batch = None
            if length >= 0:
                batch = data[at : at + length]
                at += length
            if at >= len(data):
                raise ValueError("records end outside the request")
            rows.append(Row(index, batch))
            at = skip_tags(data, at)
        at = skip_tags(data, at)
        topics.append(Topic(encoded, name, topic_id, rows))
    skip_tags(data, at)
    return Request(transactional_id, acks, timeout_ms, topics)


def _rows_left(data: memoryview, count: int, left: int | None = None) -> int:
    """Counts topics and partitions: a large request of nothing but empty ones would keep the loop for a minute."""
    if count < 0:
        raise ValueError("an array is null and must not be")
    most = min(len(data) // _SMALLEST_BATCH + _EMPTY_ROWS, MOST_ROWS)
    left = (most if left is None else left) - count
    if left < 0:
        raise ValueError(f"it names more partitions than it can have records for, or more than {MOST_ROWS}")
    if most - left > _AT_ONCE and not is_sliced():
        raise ManyRows
    return left


def _text(data: memoryview, at: int, length: int) -> str:
    if length > _LONGEST_TEXT or at + length > len(data):
        raise ValueError(f"a text at byte {at} says {length} bytes")
    return str(data[at : at + length], "utf-8", "replace")  # as Kafka does


def _read_legacy(data: memoryview) -> Request:
    length = _I16.unpack_from(data)[0]
    at = 2
    transactional_id = None
    if length >= 0:
        transactional_id = _text(data, at, length)
        at += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, at)
    topic_count = _I32.unpack_from(data, at + 6)[0]
    left = _rows_left(data, topic_count)
    at += 10
    topics = []
    for _ in numbers(topic_count):
        start = at
        length = _I16.unpack_from(data, at)[0]
        if length < 0:
            raise ValueError("a topic has no name")
        at += 2 + length
        name = _text(data, start + 2, length)
        encoded = memoryview(_string(name)) if _REPLACED in name else data[start:at]
        row_count = _I32.unpack_from(data, at)[0]
        left = _rows_left(data, row_count, left)
        at += 4
        rows = []
        for _ in numbers(row_count):
            index, length = _TWO_I32.unpack_from(data, at)
            at += 8
            batch = None
            if length >= 0:
                batch = data[at : at + length]
                at += length
            if at > len(data):
                raise ValueError("records end outside the request")
            rows.append(Row(index, batch))
        topics.append(Topic(encoded, name, None, rows))
    return Request(transactional_id, acks, timeout_ms, topics)


Leaders = dict[tuple[int, int], CurrentLeader]  # by the place of topic and row in the request


def write(
    version: int,
    topics: Sequence[Topic],
    results: list[list[Appended]],
    leaders: Leaders | None = None,
    endpoints: bytes = b"\x00",
) -> bytes:
    """The body of an answer, from the tagged fields of its header on."""
    if version >= FLEXIBLE:
        return _write_flexible(topics, results, leaders or {}, endpoints)
    return _write_legacy(version, topics, results)


def _write_flexible(
    topics: Sequence[Topic], results: list[list[Appended]], leaders: Leaders, endpoints: bytes
) -> bytes:
    out: list[bytes | memoryview] = [b"\x00", count(len(topics), flexible=True)]
    for t, (topic, appended) in enumerate(zip(topics, results, strict=True)):
        out.append(topic.encoded)
        out.append(count(len(appended), flexible=True))
        for r, (row, result) in enumerate(zip(topic.rows, appended, strict=True)):
            leader = leaders.get((t, r)) if leaders else None
            tags = b"\x00" if leader is None else b"\x01\x00" + leader.encoded()
            out.append(
                _RESULT_WITH_START.pack(
                    row.number, result.code, result.base_offset, result.log_append_time, result.start_offset
                )
            )
            if result.message is None:
                out.append(b"\x01\x00" + tags)  # no record errors, no message
            else:
                out.append(count(len(result.record_errors), flexible=True))
                for index, reason in result.record_errors:
                    out.append(_I32.pack(index) + text(reason, flexible=True) + b"\x00")
                out.append(text(result.message, flexible=True) + tags)
        out.append(b"\x00")
    out.append(b"\x00\x00\x00\x00" + endpoints)  # throttle time
    return b"".join(out)


def _write_legacy(version: int, topics: Sequence[Topic], results: list[list[Appended]]) -> bytes:
    out: list[bytes | memoryview] = [_I32.pack(len(topics))]
    for topic, appended in zip(topics, results, strict=True):
        out.append(topic.encoded)
        out.append(_I32.pack(len(appended)))
        for row, result in zip(topic.rows, appended, strict=True):
            fields = (row.number, result.code, result.base_offset, result.log_append_time)
            if version >= 5:
                out.append(_RESULT_WITH_START.pack(*fields, result.start_offset))
            else:
                out.append(_RESULT.pack(*fields))
            if version >= 8:
                out.append(_I32.pack(len(result.record_errors)))
                for index, reason in result.record_errors:
                    out.append(_I32.pack(index) + _string(reason))
                out.append(_string(result.message))
    out.append(b"\x00\x00\x00\x00")
    return b"".join(out)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _I16.pack(len(encoded)) + encoded
