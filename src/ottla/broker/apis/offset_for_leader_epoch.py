"""OffsetForLeaderEpoch (key 23): where an epoch ended: how a reader learns that the log was cut (KIP-101, KIP-320).

Versions: 2 is the oldest, with the reader's own idea of the current epoch; 3 says who asks; 4 is flexible.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.log.epochs import EpochEnd
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, NO_OFFSET
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_NOWHERE: Final = EpochEnd(NO_EPOCH, NO_OFFSET)


def handle(context: Context, request: Any) -> Any:
    is_broker = context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
    return context.respond(
        throttle_time=timedelta(0),
        topics=[
            {
                "topic": topic.topic,
                "partitions": [_answer(context, is_broker, topic.topic, row) for row in topic.partitions],
            }
            for topic in request.topics
        ],
    )


def _answer(context: Context, is_broker: bool, topic: str, row: Any) -> dict[str, Any]:
    if not is_broker and not context.allowed(Operation.DESCRIBE, Resource.TOPIC, topic):
        code, end = ErrorCode.topic_authorization_failed, _NOWHERE
    else:
        code, end = _look(context, topic, row)
    return {"error_code": code, "partition": row.partition, "leader_epoch": end.epoch, "end_offset": end.end_offset}


def _look(context: Context, topic: str, row: Any) -> tuple[ErrorCode, EpochEnd]:
    replicas = context.node.replicas
    partition = replicas.by_name.get((topic, row.partition))
    if partition is None:
        return replicas.why_not_here(topic, row.partition), _NOWHERE
    if partition.log.failed is not None:
        return ErrorCode.kafka_storage_error, _NOWHERE
    code = partition.check_epoch(row.current_leader_epoch)
    if code is not ErrorCode.none:
        return code, _NOWHERE
    return code, partition.log.epochs.end_of(row.leader_epoch, partition.log.end_offset)
