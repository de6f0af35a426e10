"""OffsetDelete (key 47): forgets how far a group has come in partitions that none of its members reads (KIP-496)."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.coordinator.group.offsets import Wanted
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import Operation, Resource

_Rows = dict[tuple[int, str], list[tuple[int, ErrorCode]]]  # by topic; one that is named twice may come twice


def handle(context: Context, request: Any) -> Any | Coroutine[Any, Any, Any]:
    if not context.allowed(Operation.DELETE, Resource.GROUP, request.group_id):
        return _answer(context, {}, ErrorCode.group_authorization_failed)
    refused: _Rows = {}
    wanted: list[Wanted] = []
    for topic in request.topics:
        numbers = [row.partition_index for row in topic.partitions]
        known = context.node.image.topic(topic.name)
        if not context.allowed(Operation.READ, Resource.TOPIC, topic.name):
            code, there = ErrorCode.topic_authorization_failed, set()
        else:
            code, there = ErrorCode.unknown_topic_or_partition, set(known.partitions) if known is not None else set()
        if missing := [(number, code) for number in numbers if number not in there]:
            refused.setdefault((0, topic.name), []).extend(missing)
        if found := [number for number in numbers if number in there]:
            wanted.append(Wanted(topic.name, found))
    return _delete(context, request.group_id, wanted, refused)


async def _delete(context: Context, group_id: str, wanted: list[Wanted], rows: _Rows) -> Any:
    if not group_id:
        return _answer(context, {}, ErrorCode.invalid_group_id)
    try:
        result = await context.node.groups.write(group_id, lambda machine: machine.offsets.delete(group_id, wanted))
    except KafkaError as error:
        result = error.code
    if isinstance(result, ErrorCode):
        return _answer(context, {}, result)
    apart = not rows
    for index, (topic, code) in enumerate(zip(wanted, result, strict=True)):
        place = (index if apart else 0, topic.topic)
        rows.setdefault(place, []).extend((number, code) for number in topic.partitions)
    return _answer(context, rows)


def _answer(context: Context, rows: _Rows, code: ErrorCode = ErrorCode.none) -> Any:
    return context.respond(
        error_code=code,
        throttle_time=timedelta(0),
        topics=[
            {
                "name": topic,
                "partitions": [{"partition_index": number, "error_code": code} for number, code in partitions],
            }
            for (_, topic), partitions in rows.items()
        ],
    )
