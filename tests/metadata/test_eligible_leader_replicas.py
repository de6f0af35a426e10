"""Eligible leader replicas (KIP-966): who may lead when too few are in sync. Rules as in Apache Kafka 4.3.0."""

from dataclasses import replace

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import (
    AlterOp,
    AlterPartition,
    AlterPartitionReassignments,
    ConfigChange,
    FeatureUpdate,
    FenceBroker,
    IncrementalAlterConfigs,
    IsrMember,
    NewTopic,
    PartitionAlteration,
    Reassignment,
    Request,
    UnregisterBroker,
    UpdateFeatures,
    UpgradeType,
)
from ottla.metadata.image import ConfigResource, LeaderRecoveryState, MetadataImage
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.errors import ErrorCode

MIN_ISR = "min.insync.replicas"


def cluster(min_isr: int = 2) -> given.Active:
    topic = NewTopic("t", assignments=((0, (1, 2, 3)),), configs=((MIN_ISR, str(min_isr)),))
    return given.Active(given.with_topics(given.cluster(1, 2, 3), topic))


def fence(active: given.Active, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        active.reply(FenceBroker(broker_id, active.image.brokers[broker_id].epoch))


def restart(active: given.Active, broker_id: int, *, cleanly: bool = False) -> None:
    broker = active.image.brokers[broker_id]
    again = given.registration(broker_id, incarnation=broker.incarnation_id.int + 1)
    active.reply(replace(again, previous_broker_epoch=broker.epoch if cleanly else -1))


def state(active: given.Active) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = active.partition("t")
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


def test_at_min_isr_nobody_else_is_eligible() -> None:
    active = cluster()
    fence(active, 3)

    assert state(active) == (1, (1, 2), (), ())


def test_who_leaves_below_min_isr_stays_eligible() -> None:
    active = cluster()
    fence(active, 3, 2)
    assert state(active) == (1, (1,), (2,), ())
    fence(active, 1)

    assert state(active) == (-1, (), (1, 2), (1,))


def test_a_leader_that_shrinks_its_isr_below_leaves_others_eligible() -> None:
    active = cluster()
    active.reply(given.proposal(active, "t", 1, (1,)))
    assert state(active) == (1, (1,), (2, 3), ())
    active.reply(given.proposal(active, "t", 1, (1, 3)))

    assert state(active) == (1, (1, 3), (), ())


def test_an_eligible_replica_leads_when_nobody_is_in_sync() -> None:
    active = cluster()
    fence(active, 3, 2, 1)
    active.heartbeat(2)

    assert state(active) == (2, (2,), (1,), ())
    assert active.partition("t").leader_recovery_state is LeaderRecoveryState.RECOVERED, "it lacks nothing"


def test_one_that_is_not_eligible_does_not_lead() -> None:
    active = cluster()
    fence(active, 3, 2, 1)
    active.heartbeat(3)

    assert active.partition("t").leader == -1


def test_after_a_crash_a_broker_is_no_longer_eligible() -> None:
    active = cluster()
    fence(active, 3, 2)
    restart(active, 2)

    assert state(active) == (1, (1,), (), ())


def test_after_a_clean_stop_it_still_is() -> None:
    active = cluster()
    fence(active, 3, 2)
    restart(active, 2, cleanly=True)

    assert state(active) == (1, (1,), (2,), ())


def test_when_all_have_crashed_the_last_leader_is_taken_though_it_may_lack_records() -> None:
    active = cluster()
    fence(active, 3, 2, 1)
    restart(active, 1)
    restart(active, 2)
    assert state(active) == (-1, (), (), (1,))
    active.heartbeat(2)
    assert active.partition("t").leader == -1
    active.heartbeat(1)

    assert state(active) == (1, (1,), (), ())
    assert active.partition("t").leader_recovery_state is LeaderRecoveryState.RECOVERING


def test_a_partition_with_one_replica_comes_back_with_it_after_a_crash() -> None:
    active = given.Active(given.with_topics(given.cluster(1), NewTopic("t", 1, 1)))
    restart(active, 1)
    active.heartbeat(1)

    assert state(active) == (1, (1,), (), ())
    assert active.partition("t").leader_epoch == 2


def test_who_is_unregistered_is_eligible_by_name_only() -> None:
    active = cluster()
    fence(active, 3, 2)
    epoch = active.image.brokers[2].epoch
    active.reply(UnregisterBroker(2))

    assert state(active) == (1, (1,), (2,), ()), "as in Kafka, which takes it out of the ISR and no more"

    # it may say that it ended well: by now that cannot be told from one whose disk was replaced
    active.reply(replace(given.registration(2, incarnation=9), previous_broker_epoch=epoch))
    assert state(active) == (1, (1,), (), ())


def test_who_was_moved_away_is_not_eligible_when_it_gets_a_replica_again() -> None:
    """It has deleted what it had. (The other partition of the topic keeps the number that must be in sync at two.)"""
    assignments = ((0, (1, 2)), (1, (1, 2)))
    topic = NewTopic("t", assignments=assignments, configs=((MIN_ISR, "2"),))
    active = given.Active(given.with_topics(given.cluster(1, 2, 3), topic))
    moving = 1

    def reassign(*replicas: int) -> None:
        active.reply(AlterPartitionReassignments((("t", (Reassignment(moving, replicas),)),)))

    reassign(3)
    before = active.partition("t", moving)
    isr = tuple(IsrMember(each, active.image.brokers[each].epoch) for each in (1, 2, 3))
    change = PartitionAlteration(
        active.image.topic_ids["t"], moving, before.leader_epoch, isr, before.partition_epoch
    )  # fmt: skip
    active.reply(AlterPartition(1, active.image.brokers[1].epoch, (change,)))
    moved = active.partition("t", moving)
    assert (moved.leader, moved.replicas, moved.isr, moved.elr) == (3, (3,), (3,), ())

    reassign(3, 1)
    fence(active, 3)
    left = active.partition("t", moving)
    assert (left.leader, left.isr, left.elr) == (-1, (), (3,))


def test_min_isr_counts_no_more_than_there_are_replicas() -> None:
    active = given.Active(given.with_topics(given.cluster(1), NewTopic("t", 1, 1, configs=((MIN_ISR, "5"),))))
    fence(active, 1)
    active.heartbeat(1)

    assert state(active) == (1, (1,), (), ())


# -- min.insync.replicas and the feature


def set_min_isr(resource: ConfigResource, value: str | None) -> IncrementalAlterConfigs:
    op = AlterOp.DELETE if value is None else AlterOp.SET
    return IncrementalAlterConfigs(((resource, (ConfigChange(MIN_ISR, op, value),)),))


TOPIC, ALL, BROKER = ConfigResource(2, "t"), ConfigResource(4, ""), ConfigResource(4, "1")


@pytest.mark.parametrize("resource", [TOPIC, ALL])
def test_another_min_isr_ends_what_was_eligible_by_the_old_one(resource: ConfigResource) -> None:
    active = cluster()
    fence(active, 3, 2)

    active.reply(set_min_isr(resource, "3"))

    assert state(active) == (1, (1,), (), ())


@pytest.mark.parametrize(
    ("resource", "value", "words"),
    [
        (BROKER, "2", "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        (BROKER, None, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."),
        (ALL, None, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
        (TOPIC, None, None),
        (ALL, "3", None),
    ],
)
def test_all_see_one_min_isr(resource: ConfigResource, value: str | None, words: str | None) -> None:
    ((_, error),) = cluster().reply(set_min_isr(resource, value))

    assert error.code is (ErrorCode.none if words is None else ErrorCode.invalid_config)
    assert error.message == words


def upgrade(level: int) -> Request[None]:
    return UpdateFeatures((FeatureUpdate("eligible.leader.replicas.version", level, UpgradeType.UPGRADE),))


def without_elr(metadata_version: int) -> MetadataImage:
    return given.cluster(1, metadata_version=metadata_version)


def test_the_feature_is_finalised_with_one_min_isr_for_all() -> None:
    of_broker = ConfigRecord(resource_type=4, resource_name="1", name=MIN_ISR, value="3")
    image = given.after(without_elr(25), of_broker)

    records = given.accepted(given.handle(upgrade(1), image, given.settings())).records

    assert records == (
        ConfigRecord(resource_type=4, resource_name="", name=MIN_ISR, value="1"),
        ConfigRecord(resource_type=4, resource_name="1", name=MIN_ISR, value=None),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
    )


def test_the_feature_needs_metadata_that_can_say_it() -> None:
    result = given.Active(without_elr(22)).submit(upgrade(1))

    assert "because it depends on metadata.version level 23" in str(result)


def test_the_last_in_sync_of_one_that_lost_its_leader_before_the_feature_was_there_leads_again() -> None:
    topic = NewTopic("t", assignments=((0, (1, 2, 3)),), configs=((MIN_ISR, "1"),))
    active = given.Active(given.with_topics(given.cluster(1, 2, 3, metadata_version=25), topic))
    fence(active, 1, 2, 3)
    assert state(active) == (-1, (3,), (), ())
    active.reply(upgrade(1))
    restart(active, 3)
    assert state(active) == (-1, (), (), (3,))
    active.heartbeat(3)

    assert state(active) == (3, (3,), (), ())
    assert active.partition("t").leader_recovery_state is LeaderRecoveryState.RECOVERING, "it may lack records"
