"""DeleteTopics, by name or by id. Replies come in the order of the request (Kafka shuffles them)."""

from collections import Counter
from typing import Final
from uuid import UUID

from ottla.metadata.controller.requests import DeleteTopics, TopicDeleted, TopicRef
from ottla.metadata.controller.result import ApiError, ControllerResult
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.remove_topic_record import RemoveTopicRecord
from ottla.model.errors import ErrorCode

_UNKNOWN_NAME: Final = ApiError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
_UNKNOWN_ID: Final = ApiError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")


def delete_topics(request: DeleteTopics, image: MetadataImage) -> ControllerResult[tuple[TopicDeleted, ...]]:
    counts = Counter(request.topics)
    replies: list[TopicDeleted] = []
    records: list[MetadataRecord] = []
    deleted: dict[UUID, None] = {}
    for ref in counts:
        reply = _resolve(ref, counts[ref], image, deleted)
        replies.append(reply)
        if reply.error.code is ErrorCode.none and reply.topic_id is not None:
            deleted[reply.topic_id] = None
            records.append(RemoveTopicRecord(topic_id=reply.topic_id))
    return ControllerResult(tuple(replies), tuple(records))


def _resolve(ref: TopicRef, count: int, image: MetadataImage, deleted: dict[UUID, None]) -> TopicDeleted:
    def refused(message: str) -> TopicDeleted:
        return TopicDeleted(ref.name, ref.topic_id, ApiError(ErrorCode.invalid_request, message))

    if ref.name is None and ref.topic_id is None:
        return refused("Neither topic name nor id were specified.")
    if ref.name is not None and ref.topic_id is not None:
        return refused("You may not specify both topic name and topic id.")
    if count > 1:
        return refused("Duplicate topic name." if ref.topic_id is None else "Duplicate topic id.")
    if ref.name is not None:
        topic = image.topic(ref.name)
        if topic is None:
            return TopicDeleted(ref.name, None, _UNKNOWN_NAME)
    else:
        assert ref.topic_id is not None
        topic = image.topics.get(ref.topic_id)
        if topic is None:
            return TopicDeleted(None, ref.topic_id, _UNKNOWN_ID)
    if topic.id in deleted:
        message = "The provided topic name maps to an ID that was already supplied."
        return TopicDeleted(topic.name, topic.id, ApiError(ErrorCode.invalid_request, message))
    return TopicDeleted(topic.name, topic.id)
