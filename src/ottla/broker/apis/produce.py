"""Produce (key 0): appends one batch to each of the partitions named.

Versions: 3 is the oldest (record batches v2), 5 adds the log start offset, 8 errors of single records, 9 is flexible,
10 tells the current leader, 11 and 12 change what transactional clients may expect (KIP-890), 13 names topics by id.
Versions 0 to 2 are advertised, because librdkafka looks at the lower bound, and refused like any unknown version, as
Kafka does.

Read and written by hand: this is the broker's hottest path, and the bytes of a batch are handed on without a copy.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from uuid import UUID

from ottla.broker.context import Api, Context
from ottla.log.producers import Origin
from ottla.model.errors import ErrorCode
from ottla.model.names import INTERNAL_TOPICS
from ottla.replica.delayed_produce import DelayedProduce
from ottla.replica.partition import Appended, Partition
from ottla.security.authorizer import Operation, Resource
from ottla.wire.buffers import BufferPool
from ottla.wire.codec import MalformedRequest
from ottla.wire.reply import CloseConnection, Later, Message
from ottla.wire.varint import Malformed, read_uvarint, uvarint

if TYPE_CHECKING:
    from ottla.broker.replicas import Replicas

_FLEXIBLE: Final = 9
_TOPIC_IDS: Final = 13
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_ACKS_TIMEOUT: Final = Struct(">hi")
_SIZE_CORRELATION: Final = Struct(">ii")
_RESULT: Final = Struct(">ihqq")
_RESULT_WITH_START: Final = Struct(">ihqqq")
_NONE: Final = ErrorCode.none
_NO_TAGS: Final = b"\x00\x00\x00"
# No record errors, no message, no tagged fields of partition and topic; throttle time; no tagged fields of the answer.
_TAIL_OF_ONE: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00\x00"


class Row(NamedTuple):
    """One partition of the request; `batch` is None where the client sent null."""

    number: int
    batch: memoryview | None


class Topic(NamedTuple):
    encoded: memoryview  # the name or the id as it came, and as it goes back
    name: str | None
    topic_id: UUID | None
    rows: list[Row]


class Request(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[Topic]


class Shape(NamedTuple):
    """The beginning of a request for one partition. A producer sends the same one again and again: it is read once."""

    version: int
    head: bytes  # the body up to the length of the records
    head_size: int
    request: Request
    answer: Struct
    answer_size: int
    answer_head: bytes


def handle(context: Context, body: memoryview) -> Message | Later:
    shape: Shape | None = context.connection.memo
    if shape is not None and shape.version == context.header.version and body[: shape.head_size] == shape.head:
        batch = _only_batch(body, shape.head_size)
        if batch is not None:
            return _append_one(context, shape, batch)
    return _append_all(context, body)


def _only_batch(body: memoryview, at: int) -> memoryview | None:
    """The records of a request that ends with them and with empty tagged fields of partition, topic and request."""
    try:
        length, at = read_uvarint(body, at)
    except Malformed:
        return None
    end = at + length - 1
    return body[at:end] if length and end + 3 == len(body) and bytes(body[end:]) == _NO_TAGS else None


def _append_one(context: Context, shape: Shape, batch: memoryview) -> Message | Later:
    request = shape.request
    topic = request.topics[0]
    number = topic.rows[0].number
    partition = _partition(context, context.node.replicas, topic, number)
    if not isinstance(partition, Partition):
        return _answer(context, request, [[Appended(partition)]])
    result = partition.append(batch, request.acks, Origin.CLIENT, -1, shape.version)
    if not isinstance(result, Appended) or not _is_acknowledged(partition, request.acks, result):
        return _wait(context, request, [[result]], len(batch))
    if result.code is not _NONE or request.acks == 0:
        return _answer(context, request, [[result]])
    return shape.answer.pack(
        shape.answer_size,
        context.header.correlation_id,
        shape.answer_head,
        number,
        0,
        result.base_offset,
        result.log_append_time,
        result.start_offset,
        _TAIL_OF_ONE,
    )


def _shape(version: int, body: memoryview, request: Request) -> Shape | None:
    if version < _FLEXIBLE or len(request.topics) != 1 or len(request.topics[0].rows) != 1:
        return None
    topic = request.topics[0]
    batch = topic.rows[0].batch
    if batch is None:
        return None
    head_size = len(body) - 3 - len(batch) - len(uvarint(len(batch) + 1))
    if head_size <= 0 or _only_batch(body, head_size) != batch:
        return None  # there are tagged fields after the records
    encoded = bytes(topic.encoded)
    kept = request._replace(
        topics=[topic._replace(encoded=memoryview(encoded), rows=[Row(topic.rows[0].number, None)])]
    )
    answer_head = b"\x00\x02" + encoded + b"\x02"
    answer = Struct(f">ii{len(answer_head)}sihqqq{len(_TAIL_OF_ONE)}s")
    return Shape(version, bytes(body[:head_size]), head_size, kept, answer, answer.size - 4, answer_head)


def _append_all(context: Context, body: memoryview) -> Message | Later:
    version = context.header.version
    try:
        request = _read_flexible(body, version) if version >= _FLEXIBLE else _read_legacy(body)
    except (IndexError, StructError, ValueError) as error:
        raise MalformedRequest(f"Produce version {version} cannot be read: {error}") from error
    if request.acks not in (-1, 0, 1):
        refused = Appended(ErrorCode.invalid_required_acks)
        return _answer(context, request, [[refused] * len(topic.rows) for topic in request.topics])
    context.connection.memo = _shape(version, body, request)
    replicas = context.node.replicas
    waits = False
    results: list[list[Appended | asyncio.Future[Appended]]] = []
    for topic in request.topics:
        appended: list[Appended | asyncio.Future[Appended]] = []
        for index, batch in topic.rows:
            partition = _partition(context, replicas, topic, index)
            if isinstance(partition, Partition):
                result = partition.append(batch if batch is not None else b"", request.acks, Origin.CLIENT, -1, version)
                if isinstance(result, asyncio.Future) or not _is_acknowledged(partition, request.acks, result):
                    waits = True
            else:
                result = Appended(partition)
            appended.append(result)
        results.append(appended)
    if waits:
        return _wait(context, request, results, len(body))
    return _answer(context, request, cast("list[list[Appended]]", results))  # no future is among them


def _partition(context: Context, replicas: Replicas, topic: Topic, index: int) -> Partition | ErrorCode:
    if topic.topic_id is not None:
        partition = replicas.by_id.get((topic.topic_id, index))
        name = replicas.name_of(topic.topic_id)
        if name is None:
            return ErrorCode.unknown_topic_id
    else:
        assert topic.name is not None
        name = topic.name
        partition = replicas.by_name.get((name, index))
    if not context.allowed(Operation.WRITE, Resource.TOPIC, name):
        return ErrorCode.topic_authorization_failed
    if partition is None:
        return replicas.why_not_here(name, index)
    if name in INTERNAL_TOPICS:
        return ErrorCode.invalid_topic_exception
    return partition


def _is_acknowledged(partition: Partition, acks: int, result: Appended) -> bool:
    if result.code is not _NONE or acks == 0:
        return True
    stage = partition.committed if acks == -1 else partition.appended
    return stage.value >= result.next_offset


def _wait(
    context: Context, request: Request, results: list[list[Appended | asyncio.Future[Appended]]], size: int
) -> Later:
    # Batches that are checked elsewhere are kept in memory until they are appended. The next request of this
    # connection waits for that, and those of others count it, or a flood of them would fill the memory.
    checked = [result for appended in results for result in appended if isinstance(result, asyncio.Future)]
    later = Later(overlaps=not checked)
    if checked:
        _hold_until_done(context.connection.pool, size, checked)
    node = context.node

    def done(complete: list[list[Appended]]) -> None:
        try:
            later.complete(_answer(context, request, complete))
        except CloseConnection:
            later.fail()

    rows = [
        [
            (node.replicas.find(topic.name, topic.topic_id, row.number), result)
            for row, result in zip(topic.rows, appended, strict=True)
        ]
        for topic, appended in zip(request.topics, results, strict=True)
    ]
    for topic in request.topics:  # what it points to is gone when this returns
        topic.rows[:] = [Row(row.number, None) for row in topic.rows]
    request = request._replace(
        topics=[topic._replace(encoded=memoryview(bytes(topic.encoded))) for topic in request.topics]
    )
    delayed = DelayedProduce(node.timers, request.acks, request.timeout_ms, rows, done)
    later.on_cancel(delayed.cancel)
    delayed.start()
    return later


def _hold_until_done(pool: BufferPool, size: int, futures: list[asyncio.Future[Appended]]) -> None:
    pool.hold(size)
    left = len(futures)

    def done(_: asyncio.Future[Appended]) -> None:
        nonlocal left
        left -= 1
        if not left:
            pool.let_go(size)

    for future in futures:
        future.add_done_callback(done)


# -- reading


def _read_flexible(data: memoryview, version: int) -> Request:
    length, at = read_uvarint(data, 0)
    transactional_id = None
    if length:
        transactional_id = str(data[at : at + length - 1], "utf-8")
        at += length - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, at)
    topic_count, at = read_uvarint(data, at + 6)
    topics = []
    for _ in range(topic_count - 1):
        start = at
        name = topic_id = None
        if version >= _TOPIC_IDS:
            at += 16
            topic_id = UUID(bytes=bytes(data[start:at]))
        else:
            length, at = read_uvarint(data, at)
            if not length:
                raise ValueError("a topic has no name")
            name = str(data[at : at + length - 1], "utf-8")
            at += length - 1
        encoded = data[start:at]
        row_count, at = read_uvarint(data, at)
        rows = []
        for _ in range(row_count - 1):
            index = _I32.unpack_from(data, at)[0]
            length, at = read_uvarint(data, at + 4)
            batch = None
            if length:
                batch = data[at : at + length - 1]
                at += length - 1
            if at >= len(data):
                raise ValueError("records end outside the request")
            rows.append(Row(index, batch))
            at = at + 1 if data[at] == 0 else _skip_tags(data, at)
        at = at + 1 if data[at] == 0 else _skip_tags(data, at)
        topics.append(Topic(encoded, name, topic_id, rows))
    return Request(transactional_id, acks, timeout_ms, topics)


def _skip_tags(data: memoryview, at: int) -> int:
    count, at = read_uvarint(data, at)
    for _ in range(count):
        _, at = read_uvarint(data, at)
        size, at = read_uvarint(data, at)
        at += size
        if at > len(data):
            raise ValueError("a tagged field ends outside the request")
    return at


def _read_legacy(data: memoryview) -> Request:
    length = _I16.unpack_from(data)[0]
    at = 2
    transactional_id = None
    if length >= 0:
        transactional_id = str(data[at : at + length], "utf-8")
        at += length
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(data, at)
    topic_count = _I32.unpack_from(data, at + 6)[0]
    at += 10
    topics = []
    for _ in range(topic_count):
        start = at
        length = _I16.unpack_from(data, at)[0]
        if length < 0:
            raise ValueError("a topic has no name")
        at += 2 + length
        name = str(data[start + 2 : at], "utf-8")
        encoded = data[start:at]
        row_count = _I32.unpack_from(data, at)[0]
        at += 4
        rows = []
        for _ in range(row_count):
            index, length = _SIZE_CORRELATION.unpack_from(data, at)
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


# -- answering


def _answer(context: Context, request: Request, results: list[list[Appended]]) -> bytes | None:
    results = _without_transactional_id(request, results)
    if request.acks == 0:
        for topic, appended in zip(request.topics, results, strict=True):
            for row, result in zip(topic.rows, appended, strict=True):
                if result.code is not _NONE:  # no answer is expected: closing is the only way to tell (as Kafka does)
                    name = topic.name or topic.topic_id
                    raise CloseConnection(f"produce with acks=0 to {name}-{row.number} failed: {result.code.name}")
        return None
    version, correlation_id = context.header.version, context.header.correlation_id
    write = _write_flexible if version >= _FLEXIBLE else _write_legacy
    body = write(version, request.topics, results)
    return _SIZE_CORRELATION.pack(len(body) + 4, correlation_id) + body


def _without_transactional_id(request: Request, results: list[list[Appended]]) -> list[list[Appended]]:
    """Kafka refuses the whole request if there is a transactional batch in it and no transactional id."""
    if request.transactional_id is None and any(
        result.code is ErrorCode.invalid_txn_state for topic in results for result in topic
    ):
        refused = Appended(ErrorCode.transactional_id_authorization_failed)
        return [[refused] * len(topic) for topic in results]
    return results


def _write_flexible(version: int, topics: list[Topic], results: list[list[Appended]]) -> bytes:
    out: list[bytes | memoryview] = [b"\x00", uvarint(len(topics) + 1)]
    for topic, appended in zip(topics, results, strict=True):
        out.append(topic.encoded)
        out.append(uvarint(len(appended) + 1))
        for row, result in zip(topic.rows, appended, strict=True):
            out.append(
                _RESULT_WITH_START.pack(
                    row.number, result.code, result.base_offset, result.log_append_time, result.start_offset
                )
            )
            if result.message is None:
                out.append(b"\x01\x00\x00")  # no record errors, no message, no tagged fields
            else:
                out.append(uvarint(len(result.record_errors) + 1))
                for index, reason in result.record_errors:
                    out.append(_I32.pack(index) + _compact(reason) + b"\x00")
                out.append(_compact(result.message) + b"\x00")
        out.append(b"\x00")
    out.append(b"\x00\x00\x00\x00\x00")  # throttle time, no tagged fields
    return b"".join(out)


def _compact(text: str) -> bytes:
    encoded = text.encode()
    return uvarint(len(encoded) + 1) + encoded


def _write_legacy(version: int, topics: list[Topic], results: list[list[Appended]]) -> bytes:
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


API: Final = Api(0, "Produce", oldest=3, newest=13, handle_raw=handle, advertise_from=0)
