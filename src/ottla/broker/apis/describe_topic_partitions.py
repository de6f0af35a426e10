"""DescribeTopicPartitions (key 75): topics and their partitions, page by page (KIP-966).

Topics come in the order of their names. An answer that is full tells with a cursor where the next one goes on; the
cursor's topic must be among those asked for. Without topics: all of them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, NamedTuple

from ottla.broker.brokers import offline_replicas
from ottla.broker.context import Context
from ottla.env.slices import breathe
from ottla.metadata.controller.topic_names import what_is_wrong
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import INTERNAL_TOPICS
from ottla.security.authorizer import TOPIC_OPERATIONS, Operation, Resource, allowed_bits


class _Cursor(NamedTuple):
    topic_name: str
    partition_index: int


def handle(context: Context, request: Any) -> Any:
    try:
        names = _names(context, request)
    except KafkaError as error:
        topics = [_without_partitions(error.code, topic.name) for topic in request.topics]
        return context.respond(throttle_time=timedelta(0), topics=topics, next_cursor=None)
    hidden = [name for name in names if not context.allowed(Operation.DESCRIBE, Resource.TOPIC, name)]
    topics, cursor = _page(context, request, sorted(set(names) - set(hidden), key=_as_java))
    for topic in topics:
        breathe()
        topic["topic_authorized_operations"] = allowed_bits(
            context.node.authorizer, context.principal, TOPIC_OPERATIONS, Resource.TOPIC, topic["name"]
        )
    if request.topics:  # asked for all, one that is hidden is not even named
        topics += (_without_partitions(ErrorCode.topic_authorization_failed, name) for name in hidden)
    return context.respond(
        throttle_time=timedelta(0), topics=topics, next_cursor=None if cursor is None else cursor._asdict()
    )


def _names(context: Context, request: Any) -> list[str]:
    """Those that the cursor has not gone past."""
    cursor = request.cursor
    asked = dict.fromkeys(topic.name for topic in request.topics) or context.node.image.topic_ids
    first = "" if cursor is None else cursor.topic_name
    names = [name for name in asked if _as_java(name) >= _as_java(first)]
    if cursor is not None and request.topics and first not in names:
        raise KafkaError(ErrorCode.invalid_request, f"the topic of the cursor, {first}, is not among the topics")
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.invalid_request, f"the cursor is at partition {cursor.partition_index}")
    if "" in names:
        raise KafkaError(ErrorCode.unknown_server_error)  # what Kafka makes of it
    return names


def _as_java(name: str) -> bytes:
    """Java compares UTF-16 units."""
    return name.encode("utf-16-be", "surrogatepass")


def _page(context: Context, request: Any, names: list[str]) -> tuple[list[dict[str, Any]], _Cursor | None]:
    image = context.node.image
    room = max(min(context.node.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    topics: list[dict[str, Any]] = []
    for name in names:
        breathe()
        if room == 0:
            return topics, _Cursor(name, 0)
        topic = image.topic(name)
        if topic is None:
            if request.topics:
                unknown = ErrorCode.unknown_topic_or_partition
                wrong = ErrorCode.invalid_topic_exception if what_is_wrong(name) else unknown
                topics.append(_without_partitions(wrong, name))
            continue
        first = request.cursor.partition_index if request.cursor and request.cursor.topic_name == name else 0
        end = min(len(topic.partitions), first + room)
        topics.append(_topic(image, topic, range(first, end), context.listener))
        if end < len(topic.partitions):
            return topics, _Cursor(name, end)
        room -= max(end - first, 0)
    return topics, None


def _topic(image: MetadataImage, topic: TopicImage, numbers: range, listener: str) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [_partition(image, number, topic.partitions[number], listener) for number in numbers],
    }


def _partition(image: MetadataImage, number: int, partition: PartitionImage, listener: str) -> dict[str, Any]:
    leader = image.brokers.get(partition.leader)
    reachable = leader is not None and not leader.fenced and leader.endpoint(listener) is not None
    return {
        "error_code": ErrorCode.none,
        "partition_index": number,
        "leader_id": partition.leader if reachable else NO_LEADER,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": partition.replicas,
        "isr_nodes": partition.isr,
        "eligible_leader_replicas": partition.elr,
        "last_known_elr": partition.last_known_elr,
        "offline_replicas": offline_replicas(image, partition, listener),
    }


def _without_partitions(code: ErrorCode, name: str) -> dict[str, Any]:
    is_internal = name in INTERNAL_TOPICS and code is not ErrorCode.topic_authorization_failed
    return {"error_code": code, "name": name, "topic_id": None, "is_internal": is_internal, "partitions": []}
