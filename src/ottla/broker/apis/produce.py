"""Produce (key 0): appends one batch to each of the partitions named.

Versions: 3 is the oldest (record batches v2), 5 adds the log start offset, 8 errors of single records, 9 is flexible,
10 tells the current leader, 11 and 12 change what transactional clients may expect (KIP-890), 13 names topics by id.
Versions 0 to 2 are advertised, because librdkafka looks at the lower bound, and refused like any unknown version, as
Kafka does.

Read and written by hand: this is the broker's hottest path, and the bytes of a batch are handed on without a copy.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ottla.broker.apis.produce_format import FLEXIBLE, Leaders, ManyRows, Request, Row, Topic, merged, read, write
from ottla.broker.apis.produce_in_transaction import (
    InTransaction,
    begins_transaction,
    is_known_to_begin,
    producer_of,
    transactional_header,
)
from ottla.broker.context import Context
from ottla.broker.current_leaders import current_leader, endpoints_of
from ottla.broker.traffic import count_refused
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.env.ports import Buffer
from ottla.log.producers import Origin
from ottla.model.errors import ErrorCode
from ottla.model.names import INTERNAL_TOPICS
from ottla.record.batch import TRANSACTIONAL_BIT, BatchStart, batch_start
from ottla.record.validate import ZSTD_SINCE, has_unknown_codec, wrong_at_first_sight
from ottla.replica.delayed_produce import DelayedProduce
from ottla.replica.partition import Appended, Partition
from ottla.security.authorizer import Operation, Resource
from ottla.wire.buffers import BufferPool
from ottla.wire.reply import CloseConnection, Later, Message
from ottla.wire.varint import Malformed, read_uvarint, uvarint

if TYPE_CHECKING:
    from ottla.broker.replicas import Replicas

_SIZE_CORRELATION: Final = Struct(">ii")
_NUMBER: Final = Struct(">i")
_NONE: Final = ErrorCode.none
_KEY: Final = b"\x00\x00"
LEADERS: Final = 10
_ATTRIBUTES_AT: Final = 22  # the low byte of a batch's attributes
_NO_TAGS: Final = b"\x00\x00\x00"
# No record errors, no message, no tagged fields of partition and topic; throttle time; no tagged fields of the answer.
_TAIL_OF_ONE: Final = b"\x01\x00\x00\x00\x00\x00\x00\x00\x00"


class Shape(NamedTuple):
    """The beginning of a request for one partition. A producer sends the same one again and again: it is read once."""

    version: int
    head: bytes  # the body up to the number of the partition
    head_size: int
    request: Request  # without a row
    answer: Struct
    answer_size: int
    answer_head: bytes

    def request_for(self, number: int) -> Request:
        topic = self.request.topics[0]
        return self.request._replace(topics=[topic._replace(rows=[Row(number, None)])])


def handle(context: Context, body: memoryview) -> Message | Later:
    shape: Shape | None = context.connection.memo
    if shape is not None and shape.version == context.header.version and body[: shape.head_size] == shape.head:
        batch = _only_batch(body, shape.head_size + _NUMBER.size)
        if batch is not None:
            return _append_one(context, shape, _NUMBER.unpack_from(body, shape.head_size)[0], batch)
    try:
        return _append_all(context, body)
    except ManyRows:
        return context.node.dispatcher.in_slices(context, body, partial(_append_many, context))


def _append_many(context: Context, body: Buffer) -> Message | Later:
    return _append_all(context, memoryview(body))


def _only_batch(body: memoryview, at: int) -> memoryview | None:
    """The records of a request that ends with them and with empty tagged fields of partition, topic and request."""
    try:
        length, at = read_uvarint(body, at)
    except Malformed:
        return None
    end = at + length - 1
    return body[at:end] if length and end + 3 == len(body) and bytes(body[end:]) == _NO_TAGS else None


def _append_one(context: Context, shape: Shape, number: int, batch: memoryview) -> Message | Later:
    acks = shape.request.acks
    is_transactional = _is_transactional(batch)
    if is_transactional and not _may_be_transactional(context, shape.request):
        return _refuse(context, shape.request_for(number), ErrorCode.transactional_id_authorization_failed)
    if is_transactional:
        context.connection.patient_key = _KEY  # else the ends of transactions wait for others' records
    partition = _partition(context, context.node.replicas, shape.request.topics[0], number)
    if not isinstance(partition, Partition):
        return _answer(context, shape.request_for(number), [[Appended(partition)]])
    result = _begin_transaction(context, shape.request, partition, batch) if is_transactional else None
    if result is None:
        result = partition.append(batch, acks, Origin.CLIENT, -1, shape.version)
    if not isinstance(result, Appended):
        return _wait(context, shape.request_for(number), [partition], [[result]], len(batch))
    if not _is_acknowledged(partition, acks, result):
        return _wait_for_one(context, shape, number, partition, result)
    return _answer_one(context, shape, number, result)


def _wait_for_one(context: Context, shape: Shape, number: int, partition: Partition, result: Appended) -> Later:
    later = Later(overlaps=True)
    request = shape.request

    def done(results: list[Appended]) -> None:
        later.complete(_answer_one(context, shape, number, results[0]))

    delayed = DelayedProduce(context.node.timers, request.acks, request.timeout_ms, ((partition, result),), done)
    later.on_cancel(delayed.cancel)
    delayed.start()
    return later


def _answer_one(context: Context, shape: Shape, number: int, result: Appended) -> bytes | None:
    if result.code is not _NONE or shape.request.acks == 0:
        return _answer(context, shape.request_for(number), [[result]])
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
    if version < FLEXIBLE or len(request.topics) != 1 or len(request.topics[0].rows) != 1:
        return None
    topic = request.topics[0]
    batch = topic.rows[0].batch
    if batch is None:
        return None
    length_at = len(body) - 3 - len(batch) - len(uvarint(len(batch) + 1))
    only = _only_batch(body, length_at) if length_at > 0 else None
    if only is None or len(only) != len(batch):
        return None  # there are tagged fields after the records
    head_size = length_at - _NUMBER.size
    encoded = bytes(topic.encoded)
    kept = request._replace(topics=[topic._replace(encoded=memoryview(encoded), rows=[])])
    answer_head = b"\x00\x02" + encoded + b"\x02"
    answer = Struct(f">ii{len(answer_head)}sihqqq{len(_TAIL_OF_ONE)}s")
    return Shape(version, bytes(body[:head_size]), head_size, kept, answer, answer.size - 4, answer_head)


def _append_all(context: Context, body: memoryview) -> Message | Later:
    version = context.header.version
    request = read(version, body)
    starts = {batch_start(row.batch) for topic in request.topics for row in topic.rows if row.batch is not None}
    request = merged(request, version)
    if BatchStart.DAMAGED in starts:
        return _refuse(context, request, ErrorCode.corrupt_message)
    if BatchStart.TRANSACTIONAL in starts and not _may_be_transactional(context, request):
        return _refuse(context, request, ErrorCode.transactional_id_authorization_failed)
    if version < ZSTD_SINCE and _names_unknown_codec(context, request):
        return _refuse(context, request, ErrorCode.unknown_server_error)
    if request.acks not in (-1, 0, 1):
        return _refuse_acks(context, request)
    context.connection.memo = _shape(version, body, request)
    in_transaction: InTransaction | None = None
    if BatchStart.TRANSACTIONAL in starts:
        batches = [row.batch for topic in request.topics for row in topic.rows if row.batch is not None]
        begun = _in_transaction(context, request, batches)
        if isinstance(begun, ErrorCode):
            return _refuse(context, request, begun)
        in_transaction = begun
    replicas = context.node.replicas
    waits = False
    results: list[list[Appended | asyncio.Future[Appended]]] = []
    partitions: list[Partition | None] = []
    for topic in request.topics:
        appended: list[Appended | asyncio.Future[Appended]] = []
        for index, batch in topic.rows:
            partition = _partition(context, replicas, topic, index)
            if isinstance(partition, Partition):
                data = batch if batch is not None else b""
                header = transactional_header(data) if in_transaction is not None else None
                waiting = None
                if in_transaction is not None and header is not None and begins_transaction(partition, header):
                    waiting = in_transaction.add(partition, data, header)
                if waiting is not None:
                    result = waiting
                else:
                    result = partition.append(data, request.acks, Origin.CLIENT, -1, version)
                if isinstance(result, asyncio.Future) or not _is_acknowledged(partition, request.acks, result):
                    waits = True
            else:
                result = Appended(partition)
            appended.append(result)
            partitions.append(partition if isinstance(partition, Partition) else None)
        results.append(appended)
    if waits:
        if in_transaction is not None:
            in_transaction.start()
            results = [[_if_there(result) for result in appended] for appended in results]
        return _wait(context, request, partitions, results, len(body))
    return _answer(context, request, cast("list[list[Appended]]", results))  # no future is among them


def _is_transactional(batch: memoryview) -> bool:
    if len(batch) <= _ATTRIBUTES_AT or not batch[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT:
        return False
    return batch_start(batch) is BatchStart.TRANSACTIONAL


def _begin_transaction(
    context: Context, request: Request, partition: Partition, batch: memoryview
) -> Appended | asyncio.Future[Appended] | None:
    """What becomes of the only batch of a request; None if it can be appended as any other."""
    header = transactional_header(batch)
    if header is None or not begins_transaction(partition, header):
        return None
    assert request.transactional_id is not None
    producer = ProducerEpoch(header.producer_id, header.producer_epoch)
    if is_known_to_begin(context, request.transactional_id, producer, partition, header.base_sequence):
        return None
    in_transaction = InTransaction(context, request.transactional_id, request.acks, producer)
    begun = in_transaction.add(partition, batch, header)
    in_transaction.start()
    return _if_there(begun) if begun is not None else None


def _if_there(result: Appended | asyncio.Future[Appended]) -> Appended | asyncio.Future[Appended]:
    return result.result() if isinstance(result, asyncio.Future) and result.done() else result


def _in_transaction(context: Context, request: Request, batches: list[memoryview]) -> InTransaction | ErrorCode | None:
    producer = producer_of(batches)
    if producer is None or isinstance(producer, ErrorCode):
        return producer
    assert request.transactional_id is not None
    return InTransaction(context, request.transactional_id, request.acks, producer)


def _may_be_transactional(context: Context, request: Request) -> bool:
    name = request.transactional_id
    return name is not None and context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, name)


def _refuse(context: Context, request: Request, code: ErrorCode) -> bytes | None:
    """The whole request, before any of it has had an effect."""
    return _answer(context, request, [[Appended(code)] * len(topic.rows) for topic in request.topics])


def _names_unknown_codec(context: Context, request: Request) -> bool:
    """Kafka falls over it, with the whole request, where it has to know whether a codec is zstd."""
    return any(
        row.batch is not None
        and has_unknown_codec(row.batch)
        and isinstance(_partition(context, context.node.replicas, topic, row.number), Partition)
        for topic in request.topics
        for row in topic.rows
    )


def _refuse_acks(context: Context, request: Request) -> bytes | None:
    """A partition that is not there, or records that are none, are told first."""

    def code(topic: Topic, row: Row) -> ErrorCode:
        partition = _partition(context, context.node.replicas, topic, row.number)
        if not isinstance(partition, Partition):
            return partition
        wrong = wrong_at_first_sight(row.batch or b"", context.version)
        return ErrorCode.invalid_required_acks if wrong is None else wrong.code

    results = [[Appended(code(topic, row)) for row in topic.rows] for topic in request.topics]
    return _answer(context, request, results)


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
    context: Context,
    request: Request,
    partitions: list[Partition | None],
    results: list[list[Appended | asyncio.Future[Appended]]],
    size: int,
) -> Later:
    """`partitions` are those that were appended to: of the same names there may be others by now, or none."""
    # Batches that are checked elsewhere are kept in memory until they are appended. The next request of this
    # connection waits for that, and those of others count it, or a flood of them would fill the memory.
    checked = [result for appended in results for result in appended if isinstance(result, asyncio.Future)]
    later = Later(overlaps=not checked)
    if checked:
        _hold_until_done(context.connection.pool, size, checked)
    rows = list(zip(partitions, [result for appended in results for result in appended], strict=True))
    kept = _without_buffers(request)

    def done(complete: list[Appended]) -> None:
        left = iter(complete)
        try:
            later.complete(_answer(context, kept, [list(islice(left, len(topic.rows))) for topic in kept.topics]))
        except CloseConnection:
            later.fail()

    delayed = DelayedProduce(context.node.timers, request.acks, request.timeout_ms, rows, done)
    later.on_cancel(delayed.cancel)
    delayed.start()
    return later


def _without_buffers(request: Request) -> Request:
    """What is still needed of a request once the buffer that it came in is used again."""
    return request._replace(
        topics=[
            topic._replace(encoded=memoryview(bytes(topic.encoded)), rows=[Row(row.number, None) for row in topic.rows])
            for topic in request.topics
        ]
    )


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


# -- answering


def _leaders(context: Context, request: Request, results: list[list[Appended]]) -> tuple[Leaders, bytes]:
    """Of partitions that another node leads, and where that one is."""
    leaders: Leaders = {}
    if context.header.version >= LEADERS:
        for t, (topic, appended) in enumerate(zip(request.topics, results, strict=True)):
            for r, (row, result) in enumerate(zip(topic.rows, appended, strict=True)):
                if result.code is ErrorCode.not_leader_or_follower:
                    name = topic.name or context.node.replicas.name_of(topic.topic_id) or ""
                    leaders[t, r] = current_leader(context, name, row.number)
    return leaders, endpoints_of(context, leaders.values()) if leaders else b"\x00"


def _answer(context: Context, request: Request, results: list[list[Appended]]) -> bytes | None:
    count_refused(context, request, results)
    if request.acks == 0:
        for topic, appended in zip(request.topics, results, strict=True):
            for row, result in zip(topic.rows, appended, strict=True):
                if result.code is not _NONE:  # no answer is expected: closing is the only way to tell (as Kafka does)
                    name = topic.name or topic.topic_id
                    raise CloseConnection(f"produce with acks=0 to {name}-{row.number} failed: {result.code.name}")
        return None
    version, correlation_id = context.header.version, context.header.correlation_id
    body = write(version, request.topics, results, *_leaders(context, request, results))
    return _SIZE_CORRELATION.pack(len(body) + 4, correlation_id) + body
