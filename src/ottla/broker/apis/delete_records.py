"""DeleteRecords (key 21): moves the start of partitions; what lies before it is gone for readers at once (KIP-107).

Versions: 1 and 2 say nothing new, 2 is flexible. The files go with the next look at retention.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.model.errors import ErrorCode
from ottla.model.names import INTERNAL_TOPICS, NO_OFFSET
from ottla.replica.partition import Partition
from ottla.security.authorizer import Operation, Resource


async def handle(context: Context, request: Any) -> Any:
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        rows = asked.setdefault(topic.name, {})
        rows.update((row.partition_index, row.offset) for row in topic.partitions)
    results = {
        (name, number): _delete(context, name, number, offset)
        for name, rows in asked.items()
        for number, offset in rows.items()
    }
    waiting = [deletion for deletion in results.values() if isinstance(deletion, _Deletion) and not deletion.is_done]
    if waiting:
        await _until_done(context, waiting, request.timeout.total_seconds())
    return context.respond(
        throttle_time=timedelta(0),
        topics=[
            {"name": name, "partitions": [_answer(number, results[name, number]) for number in rows]}
            for name, rows in asked.items()
            if rows
        ],
    )


class _Deletion:
    """Of one partition, on all its replicas that live."""

    def __init__(self, partition: Partition, offset: int, done: asyncio.Future[None]) -> None:
        self.partition = partition
        self.offset = offset
        self.done = done
        self.waiter = partition.when_deleted(offset, lambda: None if done.done() else done.set_result(None))

    @property
    def is_done(self) -> bool:
        return self.done.done()

    def result(self) -> ErrorCode | int:
        if not self.partition.is_leader:
            return ErrorCode.not_leader_or_follower
        low_watermark = self.partition.low_watermark
        return low_watermark if low_watermark >= self.offset else ErrorCode.request_timed_out


async def _until_done(context: Context, waiting: list[_Deletion], within: float) -> None:
    timer = context.node.timers.after(within * 1000, _give_up, waiting)
    try:
        await asyncio.gather(*(deletion.done for deletion in waiting))
    finally:
        timer.cancel()


def _give_up(deletions: list[_Deletion]) -> None:
    for deletion in deletions:
        deletion.waiter.cancel()
        if not deletion.is_done:
            deletion.done.set_result(None)


def _answer(number: int, told: ErrorCode | _Deletion) -> dict[str, Any]:
    result = told if isinstance(told, ErrorCode) else told.result()
    failed = isinstance(result, ErrorCode)
    return {
        "partition_index": number,
        "low_watermark": NO_OFFSET if failed else result,
        "error_code": result if failed else ErrorCode.none,
    }


def _delete(context: Context, topic: str, number: int, offset: int) -> ErrorCode | _Deletion:
    replicas = context.node.replicas
    if not context.allowed(Operation.DELETE, Resource.TOPIC, topic):
        return ErrorCode.topic_authorization_failed
    known = replicas.image.topic(topic)
    if known is None or number not in known.partitions:
        return ErrorCode.unknown_topic_or_partition
    if topic in INTERNAL_TOPICS:
        return ErrorCode.invalid_topic_exception
    partition = replicas.by_name.get((topic, number))
    if partition is None:
        return replicas.why_not_here(topic, number)
    wanted = partition.delete_records(offset)
    if isinstance(wanted, ErrorCode):
        return wanted
    return _Deletion(partition, wanted, context.node.env.loop.create_future())
