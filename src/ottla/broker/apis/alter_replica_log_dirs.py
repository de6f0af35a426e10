"""AlterReplicaLogDirs (key 34): moves partitions of this broker to other log dirs (KIP-113).

Versions: 1 is the oldest, 2 is flexible. The answer says that a move has begun; DescribeLogDirs shows how far it is.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.log_dirs import absolute
from ottla.log.paths import FUTURE_DIR_SUFFIX
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_log = logging.getLogger("ottla.broker")
_SHOWN: Final = 500  # characters of what was refused, in the log
_LONGEST_NAME: Final = 255
_UNIQUE: Final = "." + "0" * 32


def handle(context: Context, request: Any) -> Any:
    allowed = context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    targets = {
        TopicPartition(topic.name, number): log_dir.path
        for log_dir in request.dirs
        for topic in log_dir.topics
        for number in topic.partitions
    }
    results: dict[str, list[dict[str, Any]]] = {}
    refused: list[str] = []
    for key, path in targets.items():
        code = _move(context, key, path) if allowed else ErrorCode.cluster_authorization_failed
        if code is not ErrorCode.none:
            refused.append(f"{key} to {path}: {code.name}")
        results.setdefault(key.topic, []).append({"partition_index": key.partition, "error_code": code})
    if refused:
        shown = "; ".join(text[:_SHOWN] for text in refused[:3])
        _log.warning("%d of %d partitions are not moved: %s", len(refused), len(targets), shown)
    return context.respond(
        throttle_time=timedelta(0),
        results=[{"topic_name": name, "partitions": rows} for name, rows in results.items()],
    )


def _move(context: Context, key: TopicPartition, path: str) -> ErrorCode:
    """Checks in Kafka's order. A partition that is not there yet will be made where it was to go."""
    node = context.node
    logs, replicas = node.logs, node.replicas
    if len(f"{key}{_UNIQUE}{FUTURE_DIR_SUFFIX}") > _LONGEST_NAME:
        return ErrorCode.invalid_topic_exception
    if path not in map(absolute, node.config.log_dirs):
        return ErrorCode.log_dir_not_found
    target = next((log_dir for log_dir in logs.dirs if absolute(log_dir.path) == path), None)
    if target is None:
        return ErrorCode.kafka_storage_error
    if target.is_cordoned:
        return ErrorCode.invalid_replica_assignment
    partition = replicas.by_name.get(key)
    if partition is None:
        code = replicas.why_not_here(*key)
        if code is ErrorCode.kafka_storage_error:
            return code
        logs.prefer(key, target)
        return ErrorCode.replica_not_available if code is ErrorCode.not_leader_or_follower else code
    if target is not logs.dir_of(key) and logs.offline:
        return ErrorCode.kafka_storage_error  # what is offline may hold an earlier copy
    node.moves.start(key, target)
    return ErrorCode.none
