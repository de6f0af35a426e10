"""CreateTopics: answers and words were recorded from Apache Kafka 4.3.0 with one broker and num.partitions=4."""

from dataclasses import replace
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import CreateTopics, FenceBroker, NewTopic, TopicCreated, UnfenceBroker
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.metadata.image import DIRECTORY_UNASSIGNED, MetadataImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.metadata.records.topic_record import TopicRecord
from ottla.model.errors import ErrorCode

ONE_BROKER = given.with_topics(given.cluster(1), NewTopic("a.b", 2, 1))


def create(
    *topics: NewTopic, image: MetadataImage = ONE_BROKER, validate_only: bool = False
) -> tuple[tuple[TopicCreated, ...], tuple[MetadataRecord, ...]]:
    result = given.accepted(given.handle(CreateTopics(topics, validate_only), image, given.settings()))
    return result.reply, result.records


def manual(*assignments: tuple[int, tuple[int, ...]], partitions: int = -1, factor: int = -1) -> NewTopic:
    return NewTopic("m", partitions, factor, assignments)


def configured(*configs: tuple[str, str | None], factor: int = 1) -> NewTopic:
    return NewTopic("c", 1, factor, configs=configs)


NAME = ErrorCode.invalid_topic_exception
ASSIGNMENT = ErrorCode.invalid_replica_assignment
FACTOR = ErrorCode.invalid_replication_factor
PARTITIONS = ErrorCode.invalid_partitions
CONFIG = ErrorCode.invalid_config
REQUEST = ErrorCode.invalid_request


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (NewTopic(""), NAME, "Topic name is invalid: the empty string is not allowed"),
        (NewTopic("."), NAME, "Topic name is invalid: '.' is not allowed"),
        (NewTopic(".."), NAME, "Topic name is invalid: '..' is not allowed"),
        (
            NewTopic("x" * 250),
            NAME,
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (
            NewTopic("a b"),
            NAME,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (NewTopic("a_b"), NAME, "Topic 'a_b' collides with existing topic: a.b"),
        (NewTopic("a.b"), ErrorCode.topic_already_exists, "Topic 'a.b' already exists."),
        (NewTopic("t", 0, 1), PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("t", -2, 1), PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (NewTopic("t", 1, 0), FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."),
        (NewTopic("t", 0, 0), FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            NewTopic("t", 1, 3),
            FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            manual((0, (1,)), factor=1),
            REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            manual((0, (1,)), partitions=1),
            REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            manual((0, (1,)), (0, (1,))),
            ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            manual((0, (1,)), (2, (1,))),
            ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (manual((-1, (1,))), ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"),
        (
            manual((0, (9,))),
            ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            manual((0, (1, 1))),
            ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (manual((0, ())), ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        (manual((0, (1,)), (1, ())), ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        (configured(("nope", "1")), CONFIG, "Unknown topic config name: nope"),
        (configured(("nope", "1"), factor=3), CONFIG, "Unknown topic config name: nope"),
        (
            configured(("retention.ms", None), ("cleanup.policy", None)),
            CONFIG,
            "Null value not supported for topic configs: retention.ms,cleanup.policy",
        ),
        (
            NewTopic("__cluster_metadata"),
            REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (NewTopic("big", 10_001, 1), ErrorCode.policy_violation, "Excessively large number of partitions per request."),
        (
            NewTopic("big", 10_000, 1),
            ErrorCode.policy_violation,
            "Unable to perform excessively large batch operation.",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(topic: NewTopic, code: ErrorCode, message: str) -> None:
    replies, records = create(topic)

    assert replies == (TopicCreated(topic.name, ApiError(code, message)),)
    assert records == ()


def test_a_topic_is_its_record_then_its_configs_then_its_partitions() -> None:
    configs = (("retention.ms", "60000"), ("cleanup.policy", "compact"))
    (reply,), records = create(NewTopic("alpha", 2, 1, configs=configs))

    topic_id = reply.topic_id
    assert reply == TopicCreated("alpha", NO_ERROR, topic_id, 2, 1)
    assert records == (
        TopicRecord(name="alpha", topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name="alpha", name="cleanup.policy", value="compact"),
        ConfigRecord(resource_type=2, resource_name="alpha", name="retention.ms", value="60000"),
        *(
            PartitionRecord(
                partition_id=number, topic_id=topic_id, replicas=(1,), isr=(1,), removing_replicas=(),
                adding_replicas=(), leader=1, leader_epoch=0, partition_epoch=0, directories=(given.directory(1),),
            )
            for number in (0, 1)
        ),
    )  # fmt: skip


def test_minus_one_stands_for_the_defaults() -> None:
    (reply,), _ = create(NewTopic("d", -1, -1))

    assert (reply.num_partitions, reply.replication_factor) == (4, 1)


def test_validate_only_answers_and_creates_nothing() -> None:
    replies, records = create(NewTopic("ok", 3, 1), NewTopic("a.b"), validate_only=True)

    assert [(reply.name, reply.error.code, reply.num_partitions) for reply in replies] == [
        ("ok", ErrorCode.none, 3),
        ("a.b", ErrorCode.topic_already_exists, -1),
    ]
    assert records == ()


def test_a_topic_that_fails_does_not_keep_others_from_being_created() -> None:
    replies, records = create(NewTopic("good", 1, 1), NewTopic("bad name", 1, 1), NewTopic("fine", 1, 1))

    assert [reply.error.code for reply in replies] == [ErrorCode.none, NAME, ErrorCode.none]
    assert [record.name for record in records if isinstance(record, TopicRecord)] == ["good", "fine"]


def test_a_name_given_twice_is_refused_once_and_the_rest_created() -> None:
    replies, records = create(NewTopic("d", 1, 1), NewTopic("d", 1, 1), NewTopic("e", 1, 1))

    assert [(reply.name, reply.error) for reply in replies] == [
        ("e", NO_ERROR),
        ("d", ApiError(REQUEST, "Duplicate topic name.")),
    ]
    assert len(records) == 2


def test_the_metadata_topic_given_twice_is_a_duplicate_first() -> None:
    replies, _ = create(NewTopic("__cluster_metadata"), NewTopic("__cluster_metadata"))

    assert replies == (TopicCreated("__cluster_metadata", ApiError(REQUEST, "Duplicate topic name.")),)


def test_names_that_collide_within_one_request_are_let_through_as_kafka_does() -> None:
    replies, _ = create(NewTopic("q.w", 1, 1), NewTopic("q_w", 1, 1))

    assert [reply.error.code for reply in replies] == [ErrorCode.none, ErrorCode.none]


def test_too_many_partitions_over_several_topics_refuse_all() -> None:
    replies, records = create(NewTopic("x", 6000, 1), NewTopic("y", 6000, 1))

    assert {reply.error.code for reply in replies} == {ErrorCode.policy_violation}
    assert records == ()


@pytest.mark.parametrize("name", ["y" * 249, "a", "a-b", "A.9_-", "__consumer_offsets"])
def test_good_names(name: str) -> None:
    (reply,), _ = create(NewTopic(name, 1, 1))

    assert reply.error == NO_ERROR


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    image = given.cluster(1, 2, 3)
    _, records = create(manual((1, (3, 1)), (0, (2, 3))), image=image)

    partitions = [record for record in records if isinstance(record, PartitionRecord)]
    assert [(one.partition_id, one.replicas, one.leader) for one in partitions] == [(0, (2, 3), 2), (1, (3, 1), 3)]


def test_a_manual_assignment_has_one_replication_factor() -> None:
    replies, _ = create(manual((0, (1,)), (1, (1, 2))), image=given.cluster(1, 2))

    assert replies[0].error == ApiError(
        ASSIGNMENT,
        "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with "
        "previous partitions, which have 1 replica(s).",
    )


def test_fenced_replicas_are_assigned_but_not_in_sync() -> None:
    image = given.cluster(1, 2)
    image = given.decided(FenceBroker(1, image.brokers[1].epoch), image)

    _, records = create(manual((0, (1, 2))), image=image)
    replies, _ = create(manual((0, (1,))), image=image)

    (partition,) = (record for record in records if isinstance(record, PartitionRecord))
    assert (partition.replicas, partition.isr, partition.leader) == ((1, 2), (2,), 2)
    assert replies[0].error == ApiError(
        ASSIGNMENT,
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled "
        "shutdown.",
    )


def test_without_a_live_broker_nothing_is_created() -> None:
    image = given.cluster(1)
    image = given.decided(FenceBroker(1, image.brokers[1].epoch), image)

    replies, _ = create(NewTopic("t", 1, 1), image=image)

    assert replies[0].error == ApiError(
        FACTOR,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log "
        "directories cordoned.",
    )


def test_a_broker_with_several_directories_chooses_itself() -> None:
    image = given.formatted()
    image = given.decided(replace(given.registration(1), log_dirs=(UUID(int=201), UUID(int=202))), image)
    image = given.decided(UnfenceBroker(1, image.brokers[1].epoch), image)
    _, records = create(NewTopic("t", 1, 1), image=image)

    (partition,) = (record for record in records if isinstance(record, PartitionRecord))
    assert partition.directories == (DIRECTORY_UNASSIGNED,)
