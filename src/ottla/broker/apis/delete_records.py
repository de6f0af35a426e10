"""DeleteRecords (key 21): moves the start of partitions; what lies before it is gone for readers at once (KIP-107).

Versions: 1 and 2 say nothing new, 2 is flexible. The files go with the next look at retention.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Api, Context
from ottla.model.errors import ErrorCode
from ottla.model.names import INTERNAL_TOPICS, NO_OFFSET
from ottla.security.authorizer import Operation, Resource


def handle(context: Context, request: Any) -> Any:
    asked: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        rows = asked.setdefault(topic.name, {})
        rows.update((row.partition_index, row.offset) for row in topic.partitions)
    return context.respond(
        throttle_time=timedelta(0),
        topics=[
            {"name": name, "partitions": [_answer(context, name, number, offset) for number, offset in rows.items()]}
            for name, rows in asked.items()
            if rows
        ],
    )


def _answer(context: Context, topic: str, number: int, offset: int) -> dict[str, Any]:
    result = _delete(context, topic, number, offset)
    failed = isinstance(result, ErrorCode)
    return {
        "partition_index": number,
        "low_watermark": NO_OFFSET if failed else result,
        "error_code": result if failed else ErrorCode.none,
    }


def _delete(context: Context, topic: str, number: int, offset: int) -> ErrorCode | int:
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
    result = partition.delete_records(offset)
    return result if isinstance(result, ErrorCode) else partition.low_watermark


API: Final = Api(21, "DeleteRecords", oldest=0, newest=2, handle=handle)
