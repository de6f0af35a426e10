"""DeleteTopics: answers and words were recorded from Apache Kafka 4.3.0."""

from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import DeleteTopics, NewTopic, TopicDeleted, TopicRef
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.remove_topic_record import RemoveTopicRecord
from ottla.model.errors import ErrorCode

IMAGE = given.with_topics(given.cluster(1), NewTopic("real", 1, 1), NewTopic("other", 1, 1))
REAL, OTHER = IMAGE.topic_ids["real"], IMAGE.topic_ids["other"]
NO_SUCH_ID = UUID(int=77)


def delete(*topics: TopicRef) -> tuple[tuple[TopicDeleted, ...], tuple[MetadataRecord, ...]]:
    result = given.accepted(given.handle(DeleteTopics(topics), IMAGE, given.settings()))
    return result.reply, result.records


@pytest.mark.parametrize(
    ("topics", "code", "message"),
    [
        (
            [TopicRef(name="nah")],
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        ),
        (
            [TopicRef(name="__cluster_metadata")],
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        ),
        ([TopicRef(topic_id=NO_SUCH_ID)], ErrorCode.unknown_topic_id, "This server does not host this topic ID."),
        ([TopicRef(topic_id=UUID(int=1))], ErrorCode.unknown_topic_id, "This server does not host this topic ID."),
        ([TopicRef()], ErrorCode.invalid_request, "Neither topic name nor id were specified."),
        ([TopicRef("real", REAL)], ErrorCode.invalid_request, "You may not specify both topic name and topic id."),
        ([TopicRef("real"), TopicRef("real")], ErrorCode.invalid_request, "Duplicate topic name."),
        ([TopicRef(topic_id=REAL), TopicRef(topic_id=REAL)], ErrorCode.invalid_request, "Duplicate topic id."),
        (
            [TopicRef(topic_id=REAL), TopicRef("real")],
            ErrorCode.invalid_request,
            "The provided topic name maps to an ID that was already supplied.",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(topics: list[TopicRef], code: ErrorCode, message: str) -> None:
    replies, records = delete(*topics)

    assert [reply.error for reply in replies] == [ApiError(code, message)]
    assert records == ()


def test_topics_are_deleted_by_name_and_by_id() -> None:
    replies, records = delete(TopicRef(name="real"), TopicRef(topic_id=OTHER))

    assert replies == (TopicDeleted("real", REAL, NO_ERROR), TopicDeleted("other", OTHER, NO_ERROR))
    assert records == (RemoveTopicRecord(topic_id=REAL), RemoveTopicRecord(topic_id=OTHER))


def test_an_unknown_topic_does_not_keep_others_from_being_deleted() -> None:
    replies, records = delete(TopicRef(name="nah"), TopicRef(name="real"))

    assert [reply.error.code for reply in replies] == [ErrorCode.unknown_topic_or_partition, ErrorCode.none]
    assert len(records) == 1
