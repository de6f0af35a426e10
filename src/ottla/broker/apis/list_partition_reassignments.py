"""ListPartitionReassignments (key 46): which partitions are being moved (KIP-455). With one broker, none ever is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Api, Context
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return _answer(context, ErrorCode.cluster_authorization_failed, [])
    return _answer(context, ErrorCode.none, list(_moving(context.node.image, request.topics)))


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


def _answer(context: Context, code: ErrorCode, topics: list[dict[str, Any]]) -> Any:
    return context.respond(throttle_time=timedelta(0), error_code=code, error_message=None, topics=topics)


API: Final = Api(46, "ListPartitionReassignments", oldest=0, newest=0, handle=handle, takes_long=True, forwards=True)
