"""DescribeQuorum (key 55): who leads the metadata quorum and how far its voters are (KIP-595).

Versions: 1 adds when a replica fetched last and was level last (KIP-836), 2 messages, directories and where
controllers listen (KIP-853).
"""

from __future__ import annotations

from typing import Any, Final

from ottla.broker.context import Context
from ottla.model.errors import ErrorCode
from ottla.model.names import METADATA_TOPIC
from ottla.raft.leadership import Leadership, Progress
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_UNKNOWN: Final = (ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
_NOT_LEADER: Final = (
    ErrorCode.not_leader_or_follower,
    "For requests intended only for the leader, this error indicates that the broker is not the current leader. For "
    "requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.",
)


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return context.respond(
            error_code=ErrorCode.cluster_authorization_failed, error_message=None, topics=[], nodes=[]
        )
    asked = [(topic.topic_name, [row.partition_index for row in topic.partitions]) for topic in request.topics]
    leadership = context.node.raft.leadership
    nodes: list[dict[str, Any]] = []
    if asked != [(METADATA_TOPIC, [0])]:
        rows = {number: _failed(number, _UNKNOWN) for _, numbers in asked for number in numbers}
    elif leadership is None:
        rows = {0: _failed(0, _NOT_LEADER)}
    else:
        rows = {0: _quorum(context, leadership)}
        nodes = [_node(context, key, leadership) for key in leadership.voters]
    return context.respond(
        error_code=ErrorCode.none,
        error_message="",
        topics=[{"topic_name": name, "partitions": [rows[number] for number in numbers]} for name, numbers in asked],
        nodes=nodes,
    )


def _quorum(context: Context, leadership: Leadership) -> dict[str, Any]:
    raft, clock = context.node.raft, context.node.env.clock
    now_ms = clock.now_ms()
    since = now_ms - int(clock.elapsed() * 1000)  # the quorum's clock began some time ago

    def told(progress: Progress) -> dict[str, Any]:
        is_me = progress.key.id == raft.leader_id
        return {
            "replica_id": progress.key.id,
            "replica_directory_id": progress.key.directory_id,  # of static voters not known
            "log_end_offset": raft.log.end_offset if is_me else progress.end_offset,
            "last_fetch_timestamp": now_ms if is_me else _moment(progress.last_fetch_ms, since),
            "last_caught_up_timestamp": now_ms if is_me else _moment(progress.last_caught_up_ms, since),
        }

    return {
        "partition_index": 0,
        "error_code": ErrorCode.none,
        "error_message": "",
        "leader_id": raft.leader_id,
        "leader_epoch": raft.epoch,
        "high_watermark": raft.high_watermark,
        "current_voters": [told(progress) for progress in leadership.voters.values()],
        "observers": [told(progress) for progress in leadership.observers.values()],
    }


def _moment(ms: int, since: int) -> int:
    return ms + since if ms >= 0 else -1


def _failed(number: int, error: tuple[ErrorCode, str]) -> dict[str, Any]:
    code, message = error
    return {
        "partition_index": number,
        "error_code": code,
        "error_message": message,
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }


def _node(context: Context, voter_id: int, leadership: Leadership) -> dict[str, Any]:
    """A single node needs no listener for controllers, and may have none to tell."""
    raft = context.node.raft
    endpoints = raft.quorum.voters.endpoints(voter_id) or (raft.endpoints if voter_id == raft.leader_id else ())
    return {
        "node_id": voter_id,
        "listeners": [{"name": name, "host": host, "port": port} for name, host, port in endpoints],
    }
