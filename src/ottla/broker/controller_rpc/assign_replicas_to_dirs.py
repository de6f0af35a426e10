"""AssignReplicasToDirs (key 73): in which of its log dirs a broker has put its replicas (KIP-858)."""

from itertools import groupby
from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import AssignReplicasToDirs, ReplicaDirectory
from ottla.metadata.controller.result import ApiError


def _ask(request: AssignReplicasToDirs) -> dict[str, Any]:
    rows = sorted(request.assignments, key=lambda row: (row.directory, row.topic_id, row.partition))
    return {
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "directories": [
            {
                "id_": directory,
                "topics": [
                    {"topic_id": topic_id, "partitions": [{"partition_index": row.partition} for row in of_topic]}
                    for topic_id, of_topic in groupby(of_directory, key=lambda row: row.topic_id)
                ],
            }
            for directory, of_directory in groupby(rows, key=lambda row: row.directory)
        ],
    }


def _reply(_: AssignReplicasToDirs, answer: Any) -> tuple[tuple[ReplicaDirectory, ApiError], ...]:
    return tuple(
        (ReplicaDirectory(topic.topic_id, row.partition_index, directory.id_), ApiError(row.error_code))
        for directory in answer.directories
        for topic in directory.topics
        for row in topic.partitions
    )


RPC: Final = Rpc(AssignReplicasToDirs, 73, Lane.PARTITIONS, _ask, _reply)
