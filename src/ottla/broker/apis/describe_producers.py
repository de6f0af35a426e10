"""DescribeProducers (key 61): who writes to partitions, and whose transactions are open there (KIP-664)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.metadata.controller.topic_names import what_is_wrong
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource

_NONE: Final = ErrorCode.none


def handle(context: Context, request: Any) -> Any:
    topics = [
        {"name": name, "partitions": [_describe(context, name, number) for number in numbers]}
        for name, numbers in ((topic.name, topic.partition_indexes) for topic in request.topics)
    ]
    return context.respond(throttle_time=timedelta(0), topics=topics)


def _describe(context: Context, topic: str, number: int) -> dict[str, Any]:
    code, message = _refusal(context, topic)
    producers: list[dict[str, Any]] = []
    if code is _NONE:
        replicas = context.node.replicas
        partition = replicas.by_name.get((topic, number))
        if partition is None:
            code = replicas.why_not_here(topic, number)
        elif not partition.is_leader:
            code = ErrorCode.not_leader_or_follower
        else:
            producers = [_row(entry) for entry in partition.log.producers.entries.values()]
    return {"partition_index": number, "error_code": code, "error_message": message, "active_producers": producers}


def _refusal(context: Context, topic: str) -> tuple[ErrorCode, str | None]:
    wrong = what_is_wrong(topic)
    if wrong is not None:
        return ErrorCode.invalid_topic_exception, wrong
    if not context.allowed(Operation.READ, Resource.TOPIC, topic):
        return ErrorCode.topic_authorization_failed, None
    return (_NONE if context.node.image.topic(topic) is not None else ErrorCode.unknown_topic_or_partition), None


def _row(entry: Any) -> dict[str, Any]:
    last = entry.batches[-1] if entry.batches else None
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.epoch,
        "last_sequence": last.last_sequence if last is not None else -1,
        "last_timestamp": entry.last_timestamp,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_start_offset": entry.txn_first_offset,
    }
