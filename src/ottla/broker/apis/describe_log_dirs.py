"""DescribeLogDirs (key 35): the log dirs, what lies in them, how large it is and how much room is left (KIP-113).

Versions: 1 is the oldest, 2 is flexible, 3 can fail as a whole, 4 tells the size of the disk (KIP-827), 5 which dirs
take no new partitions (KIP-1066).
"""

from __future__ import annotations

from collections.abc import Container
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.context import Context
from ottla.broker.log_dirs import absolute
from ottla.env.slices import breathe
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

if TYPE_CHECKING:
    from ottla.log.log_dir import LogDir

_ALL_DIRS: Final = "*"


class _Everything(Container[TopicPartition]):
    def __contains__(self, _: object) -> bool:
        return True


async def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.cluster_authorization_failed
        return context.respond(throttle_time=timedelta(0), error_code=code, results=[])
    wanted: Container[TopicPartition] = _Everything()
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, number) for topic in request.topics for number in topic.partitions}
    results = [await _describe(context, path, wanted) for path in context.node.config.log_dirs]
    return context.respond(throttle_time=timedelta(0), error_code=ErrorCode.none, results=results)


async def _describe(context: Context, path: str, wanted: Container[TopicPartition]) -> dict[str, Any]:
    node = context.node
    log_dir = next((log_dir for log_dir in node.logs.dirs if log_dir.path == path), None)
    offline = {"error_code": ErrorCode.kafka_storage_error, "log_dir": absolute(path), "topics": []}
    if log_dir is None:
        return offline
    try:
        total, usable = await node.env.executor.blocking(node.env.disk.space, path)
    except OSError:
        return offline
    return {
        "error_code": ErrorCode.none,
        "log_dir": absolute(path),
        "topics": _topics(context, log_dir, wanted),
        "total_bytes": total,
        "usable_bytes": usable,
        "is_cordoned": _is_cordoned(context, path),
    }


def _topics(context: Context, log_dir: LogDir, wanted: Container[TopicPartition]) -> list[dict[str, Any]]:
    found: dict[str, list[dict[str, Any]]] = {}

    def add(key: TopicPartition, size: int, lag: int, is_future: bool) -> None:
        row = {"partition_index": key.partition, "partition_size": size, "offset_lag": lag, "is_future_key": is_future}
        found.setdefault(key.topic, []).append(row)

    for key, log in list(log_dir.logs.items()):
        breathe()
        if key in wanted:
            partition = context.node.replicas.by_name.get(key)
            lag = max(partition.high_watermark - log.end_offset, 0) if partition is not None else -1
            add(key, log.size, lag, False)
    for move in context.node.moves.under_way():
        if move.target is log_dir and move.log.partition in wanted:
            add(move.log.partition, move.size, move.log.end_offset - move.end_offset, True)
    return [{"name": name, "partitions": rows} for name, rows in found.items()]


def _is_cordoned(context: Context, path: str) -> bool:
    cordoned = context.node.config.get("cordoned.log.dirs")
    return isinstance(cordoned, tuple) and (path in cordoned or _ALL_DIRS in cordoned)
