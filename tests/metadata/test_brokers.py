"""Brokers come and go. The sequences of records are those of Apache Kafka 4.3.0 without eligible leader replicas."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.features import SUPPORTED
from ottla.metadata.controller.requests import (
    AllocateProducerIds,
    BeginControlledShutdown,
    FenceBroker,
    NewTopic,
    ProducerIdBlock,
    RegisterBroker,
    RegisterController,
    Request,
    UnfenceBroker,
)
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.image import Endpoint, MetadataImage, VersionRange
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.metadata.records.producer_ids_record import ProducerIdsRecord
from ottla.metadata.records.register_broker_record import RegisterBrokerRecord
from ottla.model.errors import ErrorCode

OLD = given.BEFORE_ELR
KRAFT = "kraft.version"
ONE_BROKER = given.with_topics(given.cluster(1, metadata_version=OLD), NewTopic("t", 2, 1))
TOPIC = ONE_BROKER.topic_ids["t"]
EPOCH = ONE_BROKER.brokers[1].epoch


def records_of(request: Request[Any], image: MetadataImage) -> tuple[MetadataRecord, ...]:
    return given.accepted(given.handle(request, image, given.settings())).records


def refusal(request: Request[Any], image: MetadataImage) -> ApiError:
    result = given.handle(request, image, given.settings())
    assert isinstance(result, Refused)
    return result.error


def leader_becomes(leader: int, *partitions: int) -> list[MetadataRecord]:
    return [PartitionChangeRecord(partition_id=number, topic_id=TOPIC, leader=leader) for number in partitions]


def test_a_broker_epoch_is_the_offset_at_which_the_batch_of_its_registration_begins() -> None:
    image = replace(ONE_BROKER, offset=193)

    result = given.accepted(given.handle(given.registration(1, incarnation=2), image, given.settings()))

    *changes, registered = result.records
    assert len(changes) == 2  # so that the registration's own offset would be 196
    assert isinstance(registered, RegisterBrokerRecord)
    assert (result.reply, registered.broker_epoch, registered.fenced) == (194, 194, True)


def test_the_same_incarnation_may_register_again_and_keeps_its_epoch() -> None:
    result = given.accepted(given.handle(given.registration(1, incarnation=1), ONE_BROKER, given.settings()))

    (registered,) = result.records
    assert isinstance(registered, RegisterBrokerRecord)
    assert (result.reply, registered.fenced) == (EPOCH, False)


def test_an_unclean_restart_costs_two_leader_epochs_and_no_isr() -> None:
    """What Kafka writes after a kill -9, once the old session is over: leader -1, a new registration, leader 1."""
    gone = records_of(given.registration(1, incarnation=2), ONE_BROKER)
    image = given.after(ONE_BROKER, *gone)
    epoch = image.brokers[1].epoch
    back = records_of(UnfenceBroker(1, epoch), image)
    image = given.after(image, *back)

    assert list(gone[:2]) == leader_becomes(-1, 0, 1)
    unfenced = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1)
    assert list(back) == [unfenced, *leader_becomes(1, 0, 1)]
    partition = image.topics[TOPIC].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr) == (1, 2, 2, (1,))


def test_a_clean_stop_gives_up_leadership_then_fences() -> None:
    shutdown = records_of(BeginControlledShutdown(1, EPOCH), ONE_BROKER)
    image = given.after(ONE_BROKER, *shutdown)
    fenced = records_of(FenceBroker(1, EPOCH), image)

    in_shutdown = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=EPOCH, in_controlled_shutdown=1)
    assert list(shutdown) == [in_shutdown, *leader_becomes(-1, 0, 1)]
    assert list(fenced) == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=EPOCH, fenced=1)]


def test_a_broker_restarted_after_a_clean_stop_leads_again() -> None:
    image = given.decided(BeginControlledShutdown(1, EPOCH), ONE_BROKER)
    image = given.decided(FenceBroker(1, EPOCH), image)
    registered = records_of(given.registration(1, incarnation=2), image)
    image = given.after(image, *registered)
    image = given.decided(UnfenceBroker(1, image.brokers[1].epoch), image)

    assert len(registered) == 1
    partition = image.topics[TOPIC].partitions[0]
    assert (partition.leader, partition.leader_epoch) == (1, 2)
    assert image.brokers[1].active


def test_of_several_replicas_another_in_sync_one_takes_over() -> None:
    image = given.with_topics(
        given.cluster(1, 2, 3, metadata_version=OLD), NewTopic("t", assignments=((0, (1, 2, 3)),))
    )
    topic_id = image.topic_ids["t"]

    changes = records_of(FenceBroker(1, image.brokers[1].epoch), image)

    assert changes[0] == PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2, 3), leader=2)


def test_a_follower_that_goes_leaves_the_isr_and_the_leader_epoch_alone() -> None:
    image = given.with_topics(given.cluster(1, 2, metadata_version=OLD), NewTopic("t", assignments=((0, (1, 2)),)))
    topic_id = image.topic_ids["t"]

    changes = records_of(FenceBroker(2, image.brokers[2].epoch), image)
    partition = given.after(image, *changes).topics[topic_id].partitions[0]

    assert changes[0] == PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1,))
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 0, 1)


def test_a_replica_out_of_sync_leads_only_where_the_topic_allows_that() -> None:
    image = given.with_topics(given.cluster(1, 2, metadata_version=OLD), NewTopic("t", assignments=((0, (1, 2)),)))
    topic_id = image.topic_ids["t"]
    image = given.after(image, PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1,)))
    allowed = given.after(
        image,
        ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true"),
    )
    fence = FenceBroker(1, image.brokers[1].epoch)

    assert records_of(fence, image)[0] == PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1)
    assert records_of(fence, allowed)[0] == PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, isr=(2,), leader=2, leader_recovery_state=1
    )


def test_fencing_and_unfencing_twice_writes_nothing() -> None:
    fenced = given.decided(FenceBroker(1, EPOCH), ONE_BROKER)

    assert records_of(UnfenceBroker(1, EPOCH), ONE_BROKER) == ()
    assert records_of(FenceBroker(1, EPOCH), fenced) == ()


@pytest.mark.parametrize("request_type", [UnfenceBroker, FenceBroker, BeginControlledShutdown, AllocateProducerIds])
def test_an_earlier_incarnation_is_told_that_it_is_stale(request_type: Any) -> None:
    assert refusal(request_type(1, EPOCH - 1), ONE_BROKER) == ApiError(
        ErrorCode.stale_broker_epoch, f"Expected broker epoch {EPOCH}, but got broker epoch {EPOCH - 1}"
    )
    assert refusal(request_type(9, 1), ONE_BROKER) == ApiError(
        ErrorCode.stale_broker_epoch, "No broker registration found for broker id 9"
    )


NEW = given.registration(1, incarnation=2)


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (
            replace(NEW, cluster_id="other"),
            ErrorCode.inconsistent_cluster_id,
            f"Expected cluster ID {given.CLUSTER_ID}, but got cluster ID other",
        ),
        (
            replace(NEW, is_remote=True),
            ErrorCode.duplicate_broker_registration,
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session.",
        ),
        (replace(NEW, log_dirs=()), ErrorCode.invalid_registration, "No directories specified in request"),
        (
            replace(NEW, log_dirs=(UUID(int=2),)),
            ErrorCode.invalid_registration,
            "Reserved directory ID in request",
        ),
        (
            replace(NEW, log_dirs=(UUID(int=300), UUID(int=300))),
            ErrorCode.invalid_registration,
            "Duplicate directory ID in request",
        ),
        (
            replace(NEW, broker_id=2),
            ErrorCode.invalid_registration,
            f"Broker 1 is already registered with directory {given.directory(1)}",
        ),
        (
            replace(NEW, features=()),
            ErrorCode.invalid_registration,
            "Request features do not contain 'metadata.version'",
        ),
        (
            replace(NEW, features=(("metadata.version", VersionRange(7, 24)),)),
            ErrorCode.unsupported_version,
            "Unable to register because the broker does not support finalized version 25 of metadata.version. The "
            "broker wants a version between 7 and 24, inclusive.",
        ),
    ],
)
def test_a_registration_that_kafka_refuses_is_refused(request_: RegisterBroker, code: ErrorCode, message: str) -> None:
    assert refusal(request_, ONE_BROKER) == ApiError(code, message)


def test_a_broker_must_know_every_finalised_feature() -> None:
    image = given.after(ONE_BROKER, FeatureLevelRecord(name="share.version", feature_level=1))

    assert refusal(NEW, image) == ApiError(
        ErrorCode.unsupported_version,
        "Unable to register because the broker does not support finalized version 1 of share.version. The broker "
        "wants a version between 0 and 0, inclusive.",
    )


def test_producer_ids_come_in_blocks_of_a_thousand() -> None:
    first = given.accepted(given.handle(AllocateProducerIds(1, EPOCH), ONE_BROKER, given.settings()))
    image = given.after(ONE_BROKER, *first.records)
    second = given.accepted(given.handle(AllocateProducerIds(1, EPOCH), image, given.settings()))

    assert (first.reply, second.reply) == (ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1000))
    assert second.records == (ProducerIdsRecord(broker_id=1, broker_epoch=EPOCH, next_producer_id=2000),)


def test_producer_ids_run_out() -> None:
    image = replace(ONE_BROKER, next_producer_id=2**63 - 900)

    assert refusal(AllocateProducerIds(1, EPOCH), image).code is ErrorCode.unknown_server_error


def test_a_controller_registers() -> None:
    endpoint = Endpoint("CONTROLLER", "127.0.0.1", 9093, 0)
    request = RegisterController(1, UUID(int=5), (endpoint,), tuple(SUPPORTED.items()))

    image = given.decided(request, ONE_BROKER)

    assert image.controllers[1].endpoints == (endpoint,)
    assert image.controllers[1].features == SUPPORTED


class _QuorumWithVotersInItsLog:
    kraft_version = 1

    def upgrade_kraft_version(self, version: int, *, validate_only: bool) -> bool:
        return False


@pytest.mark.parametrize(
    ("offered", "registers"), [(VersionRange(0, 1), True), (VersionRange(1, 1), True), (VersionRange(0, 0), False)]
)
def test_a_broker_must_know_the_quorums_own_version_too(offered: VersionRange, registers: bool) -> None:
    settings = replace(given.settings(), quorum=_QuorumWithVotersInItsLog())
    request = replace(NEW, features=(*(each for each in NEW.features if each[0] != KRAFT), (KRAFT, offered)))
    unnamed = replace(NEW, features=tuple(each for each in NEW.features if each[0] != KRAFT))

    result = given.handle(request, ONE_BROKER, settings)

    refused = Refused(
        ApiError(
            ErrorCode.unsupported_version,
            "Unable to register because the broker does not support finalized version 1 of kraft.version. The broker "
            "wants a version between 0 and 0, inclusive.",
        )
    )
    assert isinstance(result, ControllerResult) if registers else result == refused
    assert given.handle(unnamed, ONE_BROKER, settings) == refused
