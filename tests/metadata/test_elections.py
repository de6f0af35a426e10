"""ElectLeaders and AlterPartitionReassignments on clusters of some brokers; words recorded from Apache Kafka 4.3.0."""

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import (
    AlterPartitionReassignments,
    ElectionType,
    ElectLeaders,
    FenceBroker,
    NewTopic,
    PartitionErrors,
    PartitionsOf,
    Reassignment,
    UnfenceBroker,
    UnregisterBroker,
)
from ottla.metadata.controller.result import NO_ERROR, ApiError, Refused
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def two_replicas() -> MetadataImage:
    """Partition 0 of `t` prefers broker 1, partition 1 broker 2."""
    topic = NewTopic("t", assignments=((0, (1, 2)), (1, (2, 1))))
    return given.with_topics(given.cluster(1, 2), topic)


def without(image: MetadataImage, broker_id: int) -> MetadataImage:
    return given.decided(FenceBroker(broker_id, image.brokers[broker_id].epoch), image)


def back(image: MetadataImage, broker_id: int) -> MetadataImage:
    return given.decided(UnfenceBroker(broker_id, image.brokers[broker_id].epoch), image)


def in_sync(image: MetadataImage) -> MetadataImage:
    """As if the followers had caught up, which the controller is told by their leaders."""
    topic = image.topic("t")
    assert topic is not None
    changes = (
        PartitionChangeRecord(partition_id=number, topic_id=topic.id, isr=partition.replicas)
        for number, partition in topic.partitions.items()
    )
    return given.after(image, *changes)


def elect(
    image: MetadataImage, kind: ElectionType, *partitions: PartitionsOf, everything: bool = False
) -> tuple[PartitionErrors, MetadataImage]:
    request = ElectLeaders(kind, None if everything else partitions)
    result = given.accepted(given.handle(request, image, given.settings()))
    return result.reply, given.after(image, *result.records)


def partition(image: MetadataImage, number: int) -> PartitionImage:
    topic = image.topic("t")
    assert topic is not None
    return topic.partitions[number]


def test_leadership_goes_back_to_the_preferred_replica() -> None:
    image = in_sync(back(without(two_replicas(), 1), 1))
    assert partition(image, 0).leader == 2

    replies, after = elect(image, PREFERRED, PartitionsOf("t", (0, 1)))

    needless = ApiError(ErrorCode.election_not_needed, "Leader election not needed for topic partition.")
    assert replies == (("t", ((0, NO_ERROR), (1, needless))),)
    assert partition(after, 0).leader == 1
    assert partition(after, 0).leader_epoch == partition(image, 0).leader_epoch + 1


def test_asked_for_all_those_that_need_none_are_left_out() -> None:
    image = in_sync(back(without(two_replicas(), 1), 1))

    replies, after = elect(image, PREFERRED, everything=True)

    assert replies == (("t", ((0, NO_ERROR),)),)
    assert elect(after, PREFERRED, everything=True) == ((("t", ()),), after)


def test_a_preferred_replica_that_is_behind_does_not_lead() -> None:
    image = back(without(two_replicas(), 1), 1)  # back, and not yet in sync

    replies, after = elect(image, PREFERRED, PartitionsOf("t", (0,)))

    assert replies == (("t", ((0, ApiError(ErrorCode.preferred_leader_not_available)),)),)
    assert partition(after, 0).leader == 2


def test_an_unclean_election_takes_who_lives() -> None:
    image = back(without(without(two_replicas(), 1), 2), 1)  # 2 went last, and has all records
    assert partition(image, 0).leader == -1

    replies, after = elect(image, UNCLEAN, PartitionsOf("t", (0,)))

    assert replies == (("t", ((0, NO_ERROR),)),)
    assert (partition(after, 0).leader, partition(after, 0).isr) == (1, (1,))
    assert elect(after, UNCLEAN, PartitionsOf("t", (0,)))[0][0][1][0][1].code is ErrorCode.election_not_needed


def test_an_unclean_election_needs_somebody_who_lives() -> None:
    image = without(without(two_replicas(), 1), 2)

    replies, _ = elect(image, UNCLEAN, PartitionsOf("t", (0,)))

    assert replies == (("t", ((0, ApiError(ErrorCode.eligible_leaders_not_available)),)),)


def test_what_is_not_there_has_no_leader_to_elect() -> None:
    replies, _ = elect(two_replicas(), PREFERRED, PartitionsOf("t", (9,)), PartitionsOf("absent", (0,)))

    unknown = ErrorCode.unknown_topic_or_partition
    assert replies == (
        ("t", ((9, ApiError(unknown, "No such partition as t-9")),)),
        ("absent", ((0, ApiError(unknown, "No such topic as absent")),)),
    )


# -- reassignments


@pytest.mark.parametrize(
    ("topic", "wanted", "code", "words"),
    [
        ("t", Reassignment(0, (1, 2)), ErrorCode.none, ""),
        ("t", Reassignment(0, None), ErrorCode.no_reassignment_in_progress, ""),
        ("t", Reassignment(0, (1, 9)), ErrorCode.invalid_replica_assignment, "broker 9, but no such broker"),
        ("t", Reassignment(0, (1, 1)), ErrorCode.invalid_replica_assignment, "the broker 1 more than once"),
        ("t", Reassignment(0, ()), ErrorCode.invalid_replica_assignment, "empty replica list"),
        ("t", Reassignment(9, (1,)), ErrorCode.unknown_topic_or_partition, "Unable to find partition t:9."),
        ("absent", Reassignment(0, (1,)), ErrorCode.unknown_topic_or_partition, "Unable to find a topic named absent."),
    ],
)
def test_reassignments(topic: str, wanted: Reassignment, code: ErrorCode, words: str) -> None:
    request = AlterPartitionReassignments(((topic, (wanted,)),))

    ((name, ((number, error),)),) = given.accepted(given.handle(request, two_replicas(), given.settings())).reply

    assert (name, number, error.code) == (topic, wanted.partition, code)
    assert words in (error.message or "")


def test_another_number_of_replicas_may_be_forbidden() -> None:
    request = AlterPartitionReassignments((("t", (Reassignment(0, (1,)),)),), may_change_factor=False)

    ((_, ((_, error),)),) = given.accepted(given.handle(request, two_replicas(), given.settings())).reply

    assert error.code is ErrorCode.invalid_replication_factor


def test_replicas_in_another_order_have_another_preferred_leader() -> None:
    image = two_replicas()
    directories = dict(zip(partition(image, 0).replicas, partition(image, 0).directories, strict=True))
    request = AlterPartitionReassignments((("t", (Reassignment(0, (2, 1)),)),))

    after = given.after(image, *given.accepted(given.handle(request, image, given.settings())).records)

    moved = partition(after, 0)
    assert (moved.replicas, moved.leader) == ((2, 1), 1)
    assert dict(zip(moved.replicas, moved.directories, strict=True)) == directories


# -- leaving for good


def test_a_broker_that_is_unregistered_is_gone_from_every_isr() -> None:
    image = two_replicas()

    after = given.decided(UnregisterBroker(1), image)

    assert list(after.brokers) == [2]
    assert [(partition(after, number).leader, partition(after, number).isr) for number in (0, 1)] == [(2, (2,))] * 2


def test_a_broker_that_is_not_registered_cannot_be_unregistered() -> None:
    outcome = given.handle(UnregisterBroker(9), two_replicas(), given.settings())

    assert outcome == Refused(ApiError(ErrorCode.broker_id_not_registered, "Broker ID 9 is not currently registered"))
