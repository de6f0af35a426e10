"""AlterPartition (key 56): leaders propose in-sync replicas.

Versions: 2 names topics by id, 3 says in which epoch each replica was seen (KIP-903).
"""

from itertools import groupby
from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import AlteredPartition, AlterPartition, PartitionAlteration
from ottla.metadata.controller.result import ApiError


def _ask(request: AlterPartition) -> dict[str, Any]:
    by_topic = sorted(request.partitions, key=lambda each: each.topic_id)
    return {
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "topics": [
            {"topic_id": topic_id, "partitions": [_partition(each) for each in partitions]}
            for topic_id, partitions in groupby(by_topic, key=lambda each: each.topic_id)
        ],
    }


def _partition(altered: PartitionAlteration) -> dict[str, Any]:
    return {
        "partition_index": altered.partition,
        "leader_epoch": altered.leader_epoch,
        "new_isr": tuple(member.broker_id for member in altered.isr),
        "new_isr_with_epochs": [member._asdict() for member in altered.isr],
        "leader_recovery_state": altered.leader_recovery_state,
        "partition_epoch": altered.partition_epoch,
    }


def _reply(_: AlterPartition, answer: Any) -> tuple[AlteredPartition, ...]:
    return tuple(
        AlteredPartition(
            topic.topic_id,
            row.partition_index,
            ApiError(row.error_code),
            row.leader_id,
            row.leader_epoch,
            tuple(row.isr),
            row.leader_recovery_state,
            row.partition_epoch,
        )
        for topic in answer.topics
        for row in topic.partitions
    )


RPC: Final = Rpc(AlterPartition, 56, Lane.PARTITIONS, _ask, _reply)
