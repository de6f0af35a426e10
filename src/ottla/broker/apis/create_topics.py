"""CreateTopics (key 19): new topics, through the controller.

Versions: 2 is the oldest, 4 lets partitions and replication factor be the cluster's defaults (-1, which older versions
get too), 5 is flexible and tells what the topic got, configs included (KIP-525), 6 may be throttled (KIP-599), 7 tells
the topic's id.

An answer means that the topics are committed and that this node serves its part of them.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.env.slices import breathe
from ottla.metadata.controller.requests import CreateTopics, NewTopic, TopicCreated
from ottla.metadata.controller.result import ApiError
from ottla.model.config import describe_topic
from ottla.model.errors import ErrorCode
from ottla.model.names import METADATA_TOPIC
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


async def handle(context: Context, request: Any) -> Any:
    topics = [_new_topic(topic) for topic in request.topics]
    forbidden = _forbidden(context, [topic.name for topic in topics])
    allowed = tuple(topic for topic in topics if topic.name not in forbidden)
    replies: tuple[TopicCreated, ...] = ()
    if allowed:
        outcome = await call_controller(context, CreateTopics(allowed, request.validate_only), request.timeout)
        if isinstance(outcome, ApiError):
            replies = tuple(TopicCreated(name, outcome) for name in dict.fromkeys(topic.name for topic in allowed))
        else:
            replies = outcome
    refused = ApiError(ErrorCode.topic_authorization_failed, "creating this topic is not allowed")
    replies += tuple(TopicCreated(name, refused) for name in forbidden)
    configs = {topic.name: topic.configs for topic in topics}
    return context.respond(
        throttle_time=timedelta(0), topics=[_answer(context, reply, configs[reply.name]) for reply in replies]
    )


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((row.partition_index, tuple(row.broker_ids)) for row in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _forbidden(context: Context, names: list[str]) -> list[str]:
    """Names given twice, and the one that nobody may create, are the controller's to refuse, whoever asks."""
    if context.allowed(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME):
        return []
    return [
        name
        for name, count in Counter(names).items()
        if count == 1 and name != METADATA_TOPIC and not context.allowed(Operation.CREATE, Resource.TOPIC, name)
    ]


def _answer(context: Context, reply: TopicCreated, configs: tuple[tuple[str, str | None], ...]) -> dict[str, Any]:
    breathe()
    code, message = reply.error
    answer: dict[str, Any] = {
        "name": reply.name,
        "topic_id": reply.topic_id if code is ErrorCode.none else None,
        "error_code": code,
        "error_message": message,
        "configs": [],
    }
    if code is not ErrorCode.none or context.version < 5:
        return answer
    if not context.allowed(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, reply.name):
        return {**answer, "topic_config_error_code": ErrorCode.topic_authorization_failed.value}
    overrides = {name: value for name, value in configs if value is not None}
    return {
        **answer,
        "num_partitions": reply.num_partitions,
        "replication_factor": reply.replication_factor,
        "configs": [
            {
                "name": config.name,
                "value": overrides.get(config.name, config.value),  # as it was given
                "read_only": config.read_only,
                "config_source": config.source,
                "is_sensitive": config.is_sensitive,
            }
            for config in sorted(describe_topic(context.node.config, overrides))
        ],
    }
