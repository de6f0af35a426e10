"""DeleteTopics, by name or by id. Replies come in the order of the request (Kafka shuffles them)."""

from collections import Counter
from dataclasses import replace
from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller.requests import DeleteTopics, TopicDeleted, TopicRef
from ottla.metadata.controller.result import NO_ERROR, ApiError, ControllerResult
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.remove_topic_record import RemoveTopicRecord
from ottla.model.errors import ErrorCode

_UNKNOWN_NAME: Final = ApiError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
_UNKNOWN_ID: Final = ApiError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")


def delete_topics(request: DeleteTopics, image: MetadataImage) -> ControllerResult[tuple[TopicDeleted, ...]]:
    counts = Counter(request.topics)
    replies = [_resolved(ref, count, image) for ref, count in counts.items()]
    named = Counter(reply.topic_id for reply in replies if reply.error is NO_ERROR)
    # One topic by its name and by its id: Kafka deletes nothing and answers once, for the name.
    twice = {topic_id for topic_id, count in named.items() if count > 1}
    replies = [_named_twice(reply) if reply.topic_id in twice else reply for reply in replies]
    replies = list(dict.fromkeys(replies))
    records = tuple(
        RemoveTopicRecord(topic_id=reply.topic_id) for reply in replies if reply.error is NO_ERROR and reply.topic_id
    )
    return ControllerResult(tuple(replies), records)


def _resolved(ref: TopicRef, count: int, image: MetadataImage) -> TopicDeleted:
    breathe()
    if wrong := _wrong_with(ref, count):
        return TopicDeleted(ref.name, ref.topic_id, ApiError(ErrorCode.invalid_request, wrong))
    if ref.name is not None:
        topic = image.topic(ref.name)
        unknown = TopicDeleted(ref.name, None, _UNKNOWN_NAME)
    else:
        topic = None if ref.topic_id is None else image.topics.get(ref.topic_id)
        unknown = TopicDeleted(None, ref.topic_id, _UNKNOWN_ID)
    return unknown if topic is None else TopicDeleted(topic.name, topic.id)


def _wrong_with(ref: TopicRef, count: int) -> str | None:
    if ref == TopicRef():
        return "Neither topic name nor id were specified."
    if ref.name is not None and ref.topic_id is not None:
        return "You may not specify both topic name and topic id."
    if count > 1:
        return "Duplicate topic name." if ref.topic_id is None else "Duplicate topic id."
    return None


def _named_twice(reply: TopicDeleted) -> TopicDeleted:
    message = "The provided topic name maps to an ID that was already supplied."
    return replace(reply, error=ApiError(ErrorCode.invalid_request, message))
