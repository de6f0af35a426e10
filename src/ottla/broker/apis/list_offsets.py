"""ListOffsets (key 2): the first or last offset of a partition, or the first at or after a time.

Versions: 1 is the oldest, 2 knows isolation levels, 4 epochs, 5 OFFSET_NOT_AVAILABLE (KIP-207), 6 is flexible, 10 adds
a timeout for remote storage. What can be asked instead of a time grows with the version: see `_SINCE`.

First and last offsets are answered from memory. By time, the batch is found from the indexes; the record in it is
looked for here if the batch is small, and in another process if it is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ottla.broker.context import Context
from ottla.log.index import NotInMemory
from ottla.log.partition_log import PartitionLog
from ottla.log.time_search import BatchAt, FoundRecord, batch_at_or_after, latest_timestamp, record_at_or_after
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from ottla.record.batch import parse_header
from ottla.replica.partition import Partition
from ottla.security.authorizer import Operation, Resource

_log = logging.getLogger("ottla.broker")

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3  # KIP-734
EARLIEST_LOCAL: Final = -4  # KIP-405
LATEST_TIERED: Final = -5  # KIP-1005
EARLIEST_PENDING_UPLOAD: Final = -6  # KIP-1023
_SINCE: Final = {
    LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11,
}  # fmt: skip

_CONSUMER: Final = -1
_DEBUGGER: Final = -2  # may ask a follower too
_READ_COMMITTED: Final = 1
_INLINE_RECORDS: Final = 500  # half a millisecond's work
_MAX_TRIES: Final = 64
_SEARCHES_AT_ONCE: Final = 10  # of a request: each may hold a batch

_UNKNOWN: Final = FoundRecord(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)


class _Asker(NamedTuple):
    is_consumer: bool
    is_debugger: bool
    read_committed: bool
    patience_s: float | None  # for what is in the remote tier
    turns: asyncio.Semaphore  # of its searches by time


async def handle(context: Context, request: Any) -> Any:
    counts = Counter((topic.name, row.partition_index) for topic in request.topics for row in topic.partitions)
    answers: dict[str, dict[int, dict[str, Any]]] = {}
    searches: list[Awaitable[None]] = []
    turns = asyncio.Semaphore(_SEARCHES_AT_ONCE)

    async def answer(topic: str, row: Any) -> None:
        is_twice = counts[topic, row.partition_index] > 1
        answers[topic][row.partition_index] = await _answer(context, request, topic, row, is_twice, turns)

    for topic in request.topics:
        rows = answers.setdefault(topic.name, {})
        for row in topic.partitions:
            if row.timestamp >= 0:  # each may wait for the remote tier, and none for the others
                rows[row.partition_index] = {}
                searches.append(answer(topic.name, row))
            else:
                await answer(topic.name, row)
    await asyncio.gather(*searches)
    return context.respond(
        throttle_time=timedelta(0),
        topics=[{"name": name, "partitions": list(rows.values())} for name, rows in answers.items() if rows],
    )


async def _answer(
    context: Context, request: Any, topic: str, row: Any, is_twice: bool, turns: asyncio.Semaphore
) -> dict[str, Any]:
    found, code = _UNKNOWN, ErrorCode.none
    isolation = request.isolation_level if context.version >= 2 else 0
    if not context.allowed(Operation.DESCRIBE, Resource.TOPIC, topic):
        code = ErrorCode.topic_authorization_failed
    elif isolation not in (0, _READ_COMMITTED):
        code = ErrorCode.unknown_server_error  # what Kafka makes of it
    elif is_twice:
        code = ErrorCode.invalid_request
    else:
        asker = _Asker(
            request.replica_id == _CONSUMER,
            request.replica_id == _DEBUGGER,
            isolation == _READ_COMMITTED,
            request.timeout.total_seconds() if context.version >= 10 and request.timeout > timedelta(0) else None,
            turns,
        )
        try:
            found = await _find(context, asker, topic, row)
        except KafkaError as error:
            code = error.code
        except Exception:  # a batch that cannot be read must not cost the answer for all other partitions
            _log.exception("looking for an offset of %s-%d failed", topic, row.partition_index)
            code = ErrorCode.unknown_server_error
    return {"error_code": code, "partition_index": row.partition_index, **found._asdict()}


async def _find(context: Context, asker: _Asker, topic: str, row: Any) -> FoundRecord:
    timestamp = row.timestamp
    if timestamp < 0 and context.version < _SINCE.get(timestamp, 1 << 15):
        raise KafkaError(ErrorCode.unsupported_version)
    partition = _partition(context, asker, topic, row)
    log = partition.log
    if timestamp == LATEST:
        _demand_known_offsets(context, asker, partition)
        return FoundRecord(_last_fetchable(asker, partition), NO_TIMESTAMP, partition.leader_epoch)
    is_tiered = log.config.remote_storage_enable
    if not is_tiered and timestamp in (EARLIEST, EARLIEST_LOCAL) and log.start_offset < log.local_start_offset:
        # It was tiered, and what lies before is being deleted (KIP-950): to who reads there it is out of range already.
        return FoundRecord(log.local_start_offset, NO_TIMESTAMP, log.epochs.epoch_at(log.local_start_offset))
    if timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and not is_tiered):
        return FoundRecord(log.start_offset, NO_TIMESTAMP, _first_epoch(log))
    if timestamp in (EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _of_tier(log, timestamp) if is_tiered else _UNKNOWN
    try:
        found = await _search(context, asker, partition, timestamp)
    except OSError as error:
        log.read_failed(error)
        raise KafkaError(ErrorCode.kafka_storage_error) from None
    if found is None or found.offset >= _last_fetchable(asker, partition):
        _demand_known_offsets(context, asker, partition)
        return _UNKNOWN
    return found


def _partition(context: Context, asker: _Asker, topic: str, row: Any) -> Partition:
    replicas = context.node.replicas
    partition = replicas.by_name.get((topic, row.partition_index))
    if partition is None:
        raise KafkaError(replicas.why_not_here(topic, row.partition_index))
    if partition.log.failed is not None:
        raise KafkaError(ErrorCode.kafka_storage_error)
    code = partition.check_epoch(row.current_leader_epoch if context.version >= 4 else NO_EPOCH)
    if code is not ErrorCode.none and not (asker.is_debugger and code is ErrorCode.not_leader_or_follower):
        raise KafkaError(code)
    return partition


def _last_fetchable(asker: _Asker, partition: Partition) -> int:
    if not asker.is_consumer:
        return partition.log.end_offset
    return partition.last_stable_offset if asker.read_committed else partition.high_watermark


def _demand_known_offsets(context: Context, asker: _Asker, partition: Partition) -> None:
    """KIP-207: just after an election the high watermark may lag, and an answer from it would go back in time."""
    if asker.is_consumer and not partition.offsets_are_known:
        raise KafkaError(ErrorCode.offset_not_available if context.version >= 5 else ErrorCode.leader_not_available)


def _of_tier(log: PartitionLog, timestamp: int) -> FoundRecord:
    """Where what is on this disk begins, where what is in the remote tier ends, and what is to go there next."""
    match timestamp:
        case _ if timestamp == EARLIEST_LOCAL:
            offset = log.local_start_offset
        case _ if timestamp == LATEST_TIERED:
            offset = log.tiered_to
        case _ if log.tiered_to != NO_OFFSET:
            offset = max(log.tiered_to + 1, log.start_offset)
        case _ if log.local_start_offset == log.start_offset:
            return FoundRecord(log.start_offset, NO_TIMESTAMP, _first_epoch(log))
        case _:
            return _UNKNOWN  # how far the leader of before has come is not known yet
    return FoundRecord(offset, NO_TIMESTAMP, log.epochs.epoch_at(offset) if offset != NO_OFFSET else NO_EPOCH)


def _first_epoch(log: PartitionLog) -> int:
    starts = log.epochs.starts
    return starts[0].epoch if starts and starts[0].start_offset <= log.start_offset else NO_EPOCH


# -- by time


async def _search(context: Context, asker: _Asker, partition: Partition, timestamp: int) -> FoundRecord | None:
    """In the remote tier, then on the disk; again if segments have gone from the one to the other meanwhile."""
    log = partition.log
    has_tier = log.config.remote_storage_enable and timestamp != MAX_TIMESTAMP
    while True:
        if has_tier and log.start_offset < log.local_start_offset:
            found = await _find_in_tier(context, asker, partition, timestamp)
            if found is not None:
                return found
        local_start = log.local_start_offset
        async with asker.turns:
            found = await _find_by_time(context, log, timestamp)
        if not has_tier or log.local_start_offset == local_start:
            return found


async def _find_in_tier(
    context: Context, asker: _Asker, partition: Partition, timestamp: int
) -> FoundRecord | None:  # fmt: skip
    """Among what is in the remote tier only; None if all of it is older."""
    node = context.node
    if node.tier is None:
        raise KafkaError(ErrorCode.kafka_storage_error)
    from_offset = partition.log.start_offset
    try:
        within = asker.patience_s
        if within is None:
            within = node.config.get_int("remote.list.offsets.request.timeout.ms") / 1000
        async with asyncio.timeout(within), asker.turns:
            while True:
                code, batch, from_offset = await node.tier.reads.find_time(partition, timestamp, from_offset)
                if code is not ErrorCode.none:
                    raise KafkaError(code)
                if not batch:
                    return None
                found = await _find_in(context, batch, timestamp, from_offset)
                if found is not None:
                    return found
                from_offset = parse_header(batch).next_offset
    except TimeoutError:
        raise KafkaError(ErrorCode.request_timed_out) from None


async def _find_by_time(context: Context, log: PartitionLog, timestamp: int) -> FoundRecord | None:
    from_offset = log.start_offset
    for _ in range(_MAX_TRIES):
        try:
            wanted = latest_timestamp(log) if timestamp == MAX_TIMESTAMP else timestamp
            batch = batch_at_or_after(log, wanted, from_offset) if wanted >= 0 else None
        except NotInMemory as missing:
            await context.node.env.executor.blocking(missing.file.pread, missing.size, missing.position)
            continue
        if batch is None:
            return None
        data = await _read(context, batch)
        if len(data) < batch.size:
            continue  # it was cut while it was read
        found = await _find_in(context, data, wanted, from_offset)
        if found is not None:
            return found
        from_offset = batch.last_offset + 1
    raise KafkaError(ErrorCode.kafka_storage_error)


async def _read(context: Context, batch: BatchAt) -> bytes | bytearray:
    data = batch.file.pread_nowait(batch.size, batch.position)
    if data is not None and len(data) == batch.size:
        return data
    return await context.node.env.executor.blocking(batch.file.pread, batch.size, batch.position)


async def _find_in(context: Context, data: bytes | bytearray, timestamp: int, from_offset: int) -> FoundRecord | None:
    header = parse_header(data)
    if header.codec == 0 and header.record_count <= _INLINE_RECORDS:
        return record_at_or_after(data, timestamp, from_offset)
    return await context.node.env.executor.compute(record_at_or_after, data, timestamp, from_offset)
