"""AlterPartitionReassignments (key 45) as a broker asks for it by itself: for partitions that belong beside others."""

from datetime import timedelta
from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import AlterPartitionReassignments, PartitionErrors
from ottla.metadata.controller.result import ApiError

_WITHIN: Final = timedelta(seconds=30)


def _ask(request: AlterPartitionReassignments) -> dict[str, Any]:
    return {
        "timeout": _WITHIN,
        "topics": [
            {
                "name": topic,
                "partitions": [{"partition_index": each.partition, "replicas": each.replicas} for each in partitions],
            }
            for topic, partitions in request.topics
        ],
    }


def _reply(_: AlterPartitionReassignments, answer: Any) -> PartitionErrors:
    return tuple(
        (
            str(topic.name),
            tuple((row.partition_index, ApiError(row.error_code, row.error_message)) for row in topic.partitions),
        )
        for topic in answer.responses
    )


RPC: Final = Rpc(AlterPartitionReassignments, 45, Lane.CLIENTS, _ask, _reply)
