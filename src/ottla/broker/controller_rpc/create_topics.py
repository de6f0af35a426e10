"""CreateTopics (key 19) as a broker asks for it by itself: topics of coordinators, and those that clients first use."""

from datetime import timedelta
from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import CreateTopics, NewTopic, TopicCreated
from ottla.metadata.controller.result import ApiError
from ottla.model.names import NO_TOPIC_ID

_WITHIN: Final = timedelta(seconds=30)


def _ask(request: CreateTopics) -> dict[str, Any]:
    return {
        "topics": [_topic(topic) for topic in request.topics],
        "timeout": _WITHIN,
        "validate_only": request.validate_only,
    }


def _topic(topic: NewTopic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "num_partitions": topic.num_partitions,
        "replication_factor": topic.replication_factor,
        "assignments": [
            {"partition_index": partition, "broker_ids": replicas} for partition, replicas in topic.assignments
        ],
        "configs": [{"name": name, "value": value} for name, value in topic.configs],
    }


def _reply(_: CreateTopics, answer: Any) -> tuple[TopicCreated, ...]:
    return tuple(
        TopicCreated(
            str(row.name),
            ApiError(row.error_code, row.error_message),
            row.topic_id or NO_TOPIC_ID,
            row.num_partitions,
            row.replication_factor,
        )
        for row in answer.topics
    )


RPC: Final = Rpc(CreateTopics, 19, Lane.CLIENTS, _ask, _reply)
