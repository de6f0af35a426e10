"""ElectLeaders (key 43) as a broker asks for it by itself: for partitions that have to be led here."""

from datetime import timedelta
from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import ElectLeaders, PartitionErrors
from ottla.metadata.controller.result import ApiError

_WITHIN: Final = timedelta(seconds=30)


def _ask(request: ElectLeaders) -> dict[str, Any]:
    return {
        "election_type": request.type.value,
        "topic_partitions": None
        if request.partitions is None
        else [{"topic": each.topic, "partitions": each.partitions} for each in request.partitions],
        "timeout": _WITHIN,
    }


def _reply(_: ElectLeaders, answer: Any) -> PartitionErrors:
    return tuple(
        (
            str(topic.topic),
            tuple((row.partition_id, ApiError(row.error_code, row.error_message)) for row in topic.partition_result),
        )
        for topic in answer.replica_election_results
    )


RPC: Final = Rpc(ElectLeaders, 43, Lane.CLIENTS, _ask, _reply)
