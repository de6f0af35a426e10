"""AlterPartition (key 56): leaders propose in-sync replicas (KIP-497).

Versions: 2 names topics by id, 3 says in which epoch each replica was seen (KIP-903).
"""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_apis.broker_calls import ask_controller
from ottla.metadata.controller.requests import AlteredPartition, AlterPartition, IsrMember, PartitionAlteration
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_TOPIC_ID


async def handle(context: Context, request: Any) -> Any:
    proposals = tuple(
        PartitionAlteration(
            topic.topic_id or NO_TOPIC_ID,
            row.partition_index,
            row.leader_epoch,
            _isr(row, context.version),
            row.partition_epoch,
            row.leader_recovery_state,
        )
        for topic in request.topics
        for row in topic.partitions
    )
    outcome = await ask_controller(context, AlterPartition(request.broker_id, request.broker_epoch, proposals))
    if isinstance(outcome, ApiError):
        return context.respond(throttle_time=timedelta(0), error_code=outcome.code, topics=[])
    topics = [
        {"topic_id": topic_id, "partitions": [_row(altered) for altered in rows]}
        for topic_id, rows in groupby(outcome, key=lambda altered: altered.topic_id)
    ]
    return context.respond(throttle_time=timedelta(0), error_code=ErrorCode.none, topics=topics)


def _isr(row: Any, version: int) -> tuple[IsrMember, ...]:
    if version < 3:
        return tuple(IsrMember(broker_id) for broker_id in row.new_isr)
    return tuple(IsrMember(member.broker_id, member.broker_epoch) for member in row.new_isr_with_epochs)


def _row(altered: AlteredPartition) -> dict[str, Any]:
    return {
        "partition_index": altered.partition,
        "error_code": altered.error.code,
        "leader_id": altered.leader,
        "leader_epoch": altered.leader_epoch,
        "isr": altered.isr,
        "leader_recovery_state": altered.leader_recovery_state,
        "partition_epoch": altered.partition_epoch,
    }
