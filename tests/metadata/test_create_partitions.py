"""More partitions for topics: answers and words were recorded from Apache Kafka 4.3.0."""

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import CreatePartitions, FenceBroker, NewPartitions, NewTopic
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.model.errors import ErrorCode
from ottla.model.names import REMOTE_METADATA_TOPIC

ONE = given.with_topics(given.cluster(1), NewTopic("t", 2, 1), NewTopic("u", 1, 1))
THREE = given.with_topics(given.cluster(1, 2, 3), NewTopic("t", 2, 2))


def create(
    image: MetadataImage, *topics: NewPartitions, validate_only: bool = False
) -> tuple[dict[str, ApiError], list[PartitionRecord]]:
    result = given.accepted(given.handle(CreatePartitions(topics, validate_only), image, given.settings()))
    records = [record for record in result.records if isinstance(record, PartitionRecord)]
    assert len(records) == len(result.records)
    return dict(result.reply), records


def test_partitions_are_added_after_those_that_are_there() -> None:
    replies, records = create(ONE, NewPartitions("t", 5))

    assert replies == {"t": NO_ERROR}
    topic = ONE.topic("t")
    assert topic is not None
    assert [(record.topic_id, record.partition_id) for record in records] == [(topic.id, n) for n in (2, 3, 4)]
    assert {(record.leader, record.isr, record.replicas) for record in records} == {(1, (1,), (1,))}
    after = given.after(ONE, *records).topic("t")
    assert after is not None and len(after.partitions) == 5


def test_new_partitions_have_as_many_replicas_as_the_first() -> None:
    _, records = create(THREE, NewPartitions("t", 9))

    assert {len(set(record.replicas)) for record in records} == {2}
    assert {record.leader for record in records} == {1, 2, 3}


def test_replicas_may_be_given() -> None:
    replies, records = create(THREE, NewPartitions("t", 4, ((3, 1), (2, 3))))

    assert replies == {"t": NO_ERROR}
    assert [record.replicas for record in records] == [(3, 1), (2, 3)]


def test_what_is_told_of_the_remote_tier_stays_where_it_is_looked_for() -> None:
    image = given.with_topics(given.cluster(1), NewTopic(REMOTE_METADATA_TOPIC, 2, 1))
    replies, records = create(image, NewPartitions(REMOTE_METADATA_TOPIC, 3))

    assert replies[REMOTE_METADATA_TOPIC].code is ErrorCode.invalid_partitions
    assert records == []


def test_validate_only_adds_nothing() -> None:
    assert create(ONE, NewPartitions("t", 5), validate_only=True) == ({"t": NO_ERROR}, [])


@pytest.mark.parametrize(
    ("wanted", "code", "words"),
    [
        (NewPartitions("absent", 2), ErrorCode.unknown_topic_or_partition, ""),
        (NewPartitions("t", 2), ErrorCode.invalid_partitions, "Topic already has 2 partition(s)."),
        (
            NewPartitions("t", 1),
            ErrorCode.invalid_partitions,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (NewPartitions("t", -1), ErrorCode.invalid_partitions, "-1 would not be an increase."),
        (
            NewPartitions("t", 5, ((1, 2),)),
            ErrorCode.invalid_replica_assignment,
            "Attempted to add 3 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (NewPartitions("t", 3, ()), ErrorCode.invalid_replica_assignment, "but only 0 assignment(s)"),
        (NewPartitions("t", 3, ((),)), ErrorCode.invalid_replica_assignment, "an empty replica list"),
        (NewPartitions("t", 3, ((1, 9),)), ErrorCode.invalid_replica_assignment, "includes broker 9, but no such"),
        (NewPartitions("t", 3, ((1, 1),)), ErrorCode.invalid_replica_assignment, "the broker 1 more than once"),
        (NewPartitions("t", 3, ((1,),)), ErrorCode.invalid_replica_assignment, "which have 2 replica(s)"),
        (NewPartitions("t", 10_003), ErrorCode.unknown_server_error, "more than 10000 new partitions"),
    ],
)
def test_what_kafka_refuses_is_refused(wanted: NewPartitions, code: ErrorCode, words: str) -> None:
    replies, records = create(THREE, wanted)

    assert records == []
    assert replies[wanted.topic].code is code
    assert words in (replies[wanted.topic].message or "")


def test_topics_stand_or_fall_alone_and_the_limit_is_for_all_of_them() -> None:
    replies, records = create(ONE, NewPartitions("t", 9_002), NewPartitions("absent", 2), NewPartitions("u", 1_002))

    assert [reply.code for reply in replies.values()] == [
        ErrorCode.none, ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_server_error,
    ]  # fmt: skip
    assert len(records) == 9_000


def test_a_topic_named_twice_is_refused_once() -> None:
    replies, records = create(ONE, NewPartitions("t", 5), NewPartitions("t", 6), NewPartitions("u", 2))

    assert replies["t"] == ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
    assert replies["u"] == NO_ERROR
    assert [record.partition_id for record in records] == [1]


def test_a_partition_that_nobody_could_lead_is_not_made() -> None:
    image = given.decided(FenceBroker(2, THREE.brokers[2].epoch), THREE)
    image = given.decided(FenceBroker(3, THREE.brokers[3].epoch), image)

    replies, _ = create(image, NewPartitions("t", 3, ((2, 3),)))
    assert replies["t"].code is ErrorCode.invalid_replica_assignment
    assert "are fenced or in controlled shutdown" in (replies["t"].message or "")

    image = given.decided(FenceBroker(1, THREE.brokers[1].epoch), image)
    replies, _ = create(image, NewPartitions("t", 3))
    assert replies["t"].code is ErrorCode.invalid_replication_factor
