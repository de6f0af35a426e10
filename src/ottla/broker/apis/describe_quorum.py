"""DescribeQuorum (key 55): who leads the metadata quorum and how far its voters are (KIP-595).

Versions: 1 adds when a replica fetched last and was level last (KIP-836), 2 messages, directories and where
controllers listen (KIP-853).
"""

from __future__ import annotations

from typing import Any, Final

from ottla.broker.context import Api, Context
from ottla.model.errors import ErrorCode
from ottla.model.names import METADATA_TOPIC
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_UNKNOWN: Final = "This server does not host this topic-partition."


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return context.respond(
            error_code=ErrorCode.cluster_authorization_failed, error_message=None, topics=[], nodes=[]
        )
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics]
    is_quorum = asked == [(METADATA_TOPIC, [0])]
    describe = _quorum if is_quorum else _unknown
    return context.respond(
        error_code=ErrorCode.none,
        error_message="",
        topics=[
            {"topic_name": name, "partitions": [describe(context, number) for number in numbers]}
            for name, numbers in asked
        ],
        nodes=_nodes(context) if is_quorum else [],
    )


def _quorum(context: Context, number: int) -> dict[str, Any]:
    raft, now = context.node.raft, context.node.env.clock.now_ms()
    return {
        "partition_index": number,
        "error_code": ErrorCode.none,
        "error_message": "",
        "leader_id": raft.leader_id,
        "leader_epoch": raft.epoch,
        "high_watermark": raft.high_watermark,
        "current_voters": [
            {
                "replica_id": context.node.config.node_id,
                "replica_directory_id": None,  # voters have one from kraft.version 1 on
                "log_end_offset": raft.log.end_offset,
                "last_fetch_timestamp": now,
                "last_caught_up_timestamp": now,
            }
        ],
        "observers": [],
    }


def _unknown(context: Context, number: int) -> dict[str, Any]:
    return {
        "partition_index": number,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "error_message": _UNKNOWN,
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }


def _nodes(context: Context) -> list[dict[str, Any]]:
    """A single node needs no listener for controllers, and may have none to tell."""
    config = context.node.config
    listeners = [
        {"name": end.name, "host": end.host or "localhost", "port": end.port} for end in config.listeners.controller
    ]
    return [{"node_id": config.node_id, "listeners": listeners}]


API: Final = Api(55, "DescribeQuorum", oldest=0, newest=2, handle=handle, forwards=True)
