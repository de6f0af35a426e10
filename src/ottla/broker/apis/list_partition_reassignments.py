"""ListPartitionReassignments (key 46): which partitions are being moved (KIP-455)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_call import refusal
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return _answer(context, ApiError(ErrorCode.cluster_authorization_failed), [])
    if (refused := refusal(context)) is not None:
        return _answer(context, refused, [])
    return _answer(context, NO_ERROR, list(_moving(context.node.image, request.topics)))


def _moving(image: MetadataImage, asked: Any) -> Iterator[dict[str, Any]]:
    wanted = None if asked is None else {topic.name: topic.partition_indexes for topic in asked}
    for topic in image.topics.values():
        if wanted is not None and topic.name not in wanted:
            continue
        partitions = [
            {
                "partition_index": number,
                "replicas": partition.replicas,
                "adding_replicas": partition.adding_replicas,
                "removing_replicas": partition.removing_replicas,
            }
            for number, partition in sorted(topic.partitions.items())
            if (partition.adding_replicas or partition.removing_replicas)
            and (wanted is None or number in wanted[topic.name])
        ]
        if partitions:
            yield {"name": topic.name, "partitions": partitions}


def _answer(context: Context, error: ApiError, topics: list[dict[str, Any]]) -> Any:
    return context.respond(
        throttle_time=timedelta(0), error_code=error.code, error_message=error.message, topics=topics
    )
