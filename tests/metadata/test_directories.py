"""Which directory a replica lies in, and directories that fail (KIP-858)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import (
    AssignReplicasToDirs,
    BrokerHeartbeat,
    CreateTopics,
    NewTopic,
    ReplicaDirectory,
    Request,
    UnfenceBroker,
)
from ottla.metadata.controller.result import Refused
from ottla.metadata.image import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, MetadataImage
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

FAST, LARGE, STRANGE = UUID(int=501), UUID(int=502), UUID(int=503)


def registered(image: MetadataImage, broker_id: int = 1, *directories: UUID, incarnation: int = 9) -> MetadataImage:
    registration = replace(given.registration(broker_id, incarnation), log_dirs=directories or (FAST, LARGE))
    image = given.decided(registration, image)
    return given.decided(UnfenceBroker(broker_id, image.brokers[broker_id].epoch), image)


def cluster() -> MetadataImage:
    """One broker with two directories and a topic of two partitions, one in each."""
    image = given.with_topics(registered(given.formatted()), NewTopic("t", 2, 1))
    return given.decided(assignment(image, {0: FAST, 1: LARGE}), image)


def topic_of(image: MetadataImage) -> UUID:
    return image.topic_ids["t"]


def assignment(image: MetadataImage, directories: dict[int, UUID], broker_id: int = 1) -> AssignReplicasToDirs:
    rows = tuple(ReplicaDirectory(topic_of(image), number, where) for number, where in directories.items())
    return AssignReplicasToDirs(broker_id, image.brokers[broker_id].epoch, rows)


def offline(image: MetadataImage, *directories: UUID, broker_id: int = 1) -> BrokerHeartbeat:
    epoch = image.brokers[broker_id].epoch
    return BrokerHeartbeat(broker_id, epoch, image.offset, offline_directories=directories)


def cordon(image: MetadataImage, *directories: UUID) -> BrokerHeartbeat:
    return BrokerHeartbeat(1, image.brokers[1].epoch, image.offset, cordoned_directories=directories)


def leaders(image: MetadataImage) -> list[int]:
    return [partition.leader for partition in image.topics[topic_of(image)].partitions.values()]


def test_a_broker_with_several_directories_chooses_and_tells() -> None:
    image = given.with_topics(registered(given.formatted()), NewTopic("t", 2, 1))
    before = image.topics[topic_of(image)].partitions
    assert [partition.directories for partition in before.values()] == [(DIRECTORY_UNASSIGNED,)] * 2

    image = given.decided(assignment(image, {0: LARGE, 1: FAST}), image)

    after = image.topics[topic_of(image)].partitions
    assert [partition.directories for partition in after.values()] == [(LARGE,), (FAST,)]
    assert [partition.leader_epoch for partition in after.values()] == [0, 0]
    assert given.accepted(given.handle(assignment(image, {0: LARGE}), image, given.settings())).records == ()


def test_errors_of_single_assignments() -> None:
    image = given.with_topics(given.cluster(1, 2), NewTopic("t", -1, -1, assignments=((0, (2,)),)))
    topic = topic_of(image)
    rows = (
        ReplicaDirectory(UUID(int=77), 0, FAST),
        ReplicaDirectory(topic, 5, FAST),
        ReplicaDirectory(topic, 0, FAST),
    )
    reply = given.accepted(
        given.handle(AssignReplicasToDirs(1, image.brokers[1].epoch, rows), image, given.settings())
    ).reply
    assert [error.code for _, error in reply] == [
        ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower,
    ]  # fmt: skip


@pytest.mark.parametrize("request_type", [AssignReplicasToDirs, BrokerHeartbeat])
def test_an_earlier_life_of_the_broker_is_not_believed(request_type: type[Request[Any]]) -> None:
    image = cluster()
    refused = given.handle(request_type(1, image.brokers[1].epoch - 1, ()), image, given.settings())  # type: ignore[call-arg]
    assert isinstance(refused, Refused)
    assert refused.error.code is ErrorCode.stale_broker_epoch


def test_partitions_in_a_directory_that_fails_have_no_leader_and_who_was_in_sync_stays_eligible() -> None:
    image = cluster()

    records = given.accepted(given.handle(offline(image, LARGE, STRANGE), image, given.settings())).records

    assert records == (
        PartitionChangeRecord(
            topic_id=topic_of(image),
            partition_id=1,
            leader=-1,
            isr=(),
            eligible_leader_replicas=(1,),
            last_known_elr=(1,),
        ),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=image.brokers[1].epoch, log_dirs=(FAST,)),
    )
    image = given.after(image, *records)
    assert leaders(image) == [1, -1]
    assert given.accepted(given.handle(offline(image, LARGE), image, given.settings())).records == (), (
        "it is known already"
    )


def test_a_broker_that_comes_back_leads_only_what_it_has() -> None:
    image = given.decided(offline(cluster(), LARGE), cluster())

    without = registered(image, 1, FAST, incarnation=10)
    assert leaders(without) == [1, -1]
    whole = registered(without, 1, FAST, LARGE, incarnation=11)
    assert leaders(whole) == [1, 1]


def test_an_assignment_to_a_directory_that_failed_meanwhile_costs_the_leadership() -> None:
    image = given.with_topics(registered(given.formatted()), NewTopic("t", 2, 1))
    image = given.decided(offline(image, LARGE), image)
    assert leaders(image) == [1, 1], "nobody has told yet where they are"

    image = given.decided(assignment(image, {1: LARGE}), image)

    assert leaders(image) == [1, -1]


def test_another_replica_takes_over() -> None:
    image = registered(registered(given.formatted()), 2, UUID(int=601), incarnation=8)
    image = given.with_topics(image, NewTopic("t", -1, -1, assignments=((0, (1, 2)),)))
    image = given.decided(assignment(image, {0: LARGE}), image)

    image = given.decided(offline(image, LARGE), image)

    partition = image.topics[topic_of(image)].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_epoch) == (2, (2,), 1)


@pytest.mark.parametrize(
    ("directory", "online"),
    [(FAST, True), (STRANGE, False), (DIRECTORY_UNASSIGNED, True), (UUID(int=0), True), (DIRECTORY_LOST, False)],
)
def test_what_counts_as_online(directory: UUID, online: bool) -> None:
    broker = cluster().brokers[1]
    assert broker.has_online(directory) is online
    assert replace(broker, directories=()).has_online(directory) is (directory != DIRECTORY_LOST)


def test_directories_are_cordoned_and_let_go() -> None:
    image = cluster()

    some = given.decided(cordon(image, FAST), image)
    assert some.brokers[1].cordoned_directories == (FAST,)
    again = given.accepted(given.handle(cordon(some, FAST), some, given.settings()))
    assert again.records == ()
    none = given.decided(cordon(some), some)
    assert none.brokers[1].cordoned_directories == ()


def test_a_broker_of_before_cannot_cordon() -> None:
    image = cluster()

    stale = replace(cordon(image, FAST), broker_epoch=image.brokers[1].epoch - 1)
    outcome = given.handle(stale, image, given.settings())

    assert isinstance(outcome, Refused)
    assert outcome.error.code is ErrorCode.stale_broker_epoch


def test_with_all_directories_cordoned_nothing_is_placed() -> None:
    image = cluster()
    image = given.decided(cordon(image, FAST, LARGE), image)

    (reply,) = given.accepted(given.handle(CreateTopics((NewTopic("u", 1, 1),)), image, given.settings())).reply

    assert reply.error.code is ErrorCode.invalid_replication_factor
    assert "cordoned" in (reply.error.message or "")


def test_a_replica_that_goes_with_this_very_change_is_not_named_any_more() -> None:
    image = given.with_topics(given.cluster(1, 2, 3), NewTopic("t", assignments=((0, (1, 2)),)))
    moving = PartitionChangeRecord(
        topic_id=topic_of(image), partition_id=0, replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,),
        directories=(given.directory(3), given.directory(2), given.directory(1)), isr=(3,), leader=3,
    )  # fmt: skip
    image = given.after(image, moving)

    image = given.decided(assignment(image, {0: STRANGE}), image)

    partition = image.topics[topic_of(image)].partitions[0]
    assert (partition.replicas, partition.directories) == ((3, 2), (given.directory(3), given.directory(2)))
