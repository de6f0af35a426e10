"""AlterPartition: what a leader may change about its ISR. Codes and their order are those of Apache Kafka 4.3.0."""

from typing import Any
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import (
    AlteredPartition,
    AlterPartition,
    AlterPartitionReassignments,
    IsrMember,
    NewTopic,
    PartitionAlteration,
    Reassignment,
)
from ottla.metadata.image import LeaderRecoveryState
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode


def cluster(*, brokers: int = 4, replicas: tuple[int, ...] = (1, 2, 3)) -> given.Active:
    image = given.cluster(*range(1, brokers + 1))
    active = given.Active(given.with_topics(image, NewTopic("t", assignments=((0, replicas),))))
    for broker_id in active.image.brokers:
        active.heartbeat(broker_id)
    return active


def altered(active: given.Active, request: AlterPartition) -> AlteredPartition:
    (reply,) = active.reply(request)
    return reply


def test_a_leader_shrinks_and_expands_its_isr() -> None:
    active = cluster()

    shrunk = altered(active, given.proposal(active, "t", 1, (1, 2)))
    expanded = altered(active, given.proposal(active, "t", 1, (1, 2, 3)))

    assert (shrunk.error.code, shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == (0, (1, 2), 0, 1)
    assert (expanded.isr, expanded.leader_epoch, expanded.partition_epoch, expanded.leader) == ((1, 2, 3), 0, 2, 1)
    assert active.partition("t").isr == (1, 2, 3)


def test_an_isr_that_is_there_already_costs_nothing() -> None:
    active = cluster()
    offset = active.image.offset

    reply = altered(active, given.proposal(active, "t", 1, (1, 2, 3)))

    assert (reply.error.code, reply.partition_epoch, active.image.offset) == (0, 0, offset)


def members(*broker_ids: int) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(broker_id) for broker_id in broker_ids)


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"leader_epoch": 1}, ErrorCode.not_controller),
        ({"partition_epoch": 6}, ErrorCode.not_controller),
        ({"leader_epoch": -1}, ErrorCode.fenced_leader_epoch),
        ({"partition_epoch": 0}, ErrorCode.invalid_update_version),
        ({"isr": members(1, 4)}, ErrorCode.invalid_request),
        ({"isr": members(1, 1)}, ErrorCode.invalid_request),
        ({"isr": members(2, 3)}, ErrorCode.invalid_request),
        ({"isr": ()}, ErrorCode.invalid_request),
        ({"leader_recovery_state": 1}, ErrorCode.invalid_request),
        ({"leader_recovery_state": 1, "isr": members(1)}, ErrorCode.invalid_request),
        ({"leader_recovery_state": 7}, ErrorCode.invalid_request),
        ({"isr": (IsrMember(1), IsrMember(2, 1))}, ErrorCode.ineligible_replica),
        ({"topic_id": UUID(int=77)}, ErrorCode.unknown_topic_id),
        ({"partition": 9}, ErrorCode.unknown_topic_or_partition),
        ({}, ErrorCode.none),
        ({"isr": members(1, 2)}, ErrorCode.none),
    ],
)
def test_what_a_leader_may_propose(values: dict[str, Any], code: ErrorCode) -> None:
    active = cluster()
    altered(active, given.proposal(active, "t", 1, (1, 2)))
    proposal = PartitionAlteration(
        **{
            "topic_id": active.image.topic_ids["t"],
            "partition": 0,
            "leader_epoch": 0,
            "isr": members(1, 2, 3),
            "partition_epoch": 1,
            **values,
        }
    )

    (reply,) = active.reply(AlterPartition(1, active.image.brokers[1].epoch, (proposal,)))

    assert reply.error.code is code


def test_only_the_leader_may_propose() -> None:
    active = cluster()

    assert altered(active, given.proposal(active, "t", 2, (1, 2))).error.code is ErrorCode.invalid_request


def test_a_broker_of_before_may_not_propose() -> None:
    active = cluster()
    request = given.proposal(active, "t", 1, (1, 2))
    stale = AlterPartition(request.broker_id, request.broker_epoch - 1, request.partitions)

    assert active.refusal(stale) is ErrorCode.stale_broker_epoch


def test_who_is_fenced_going_or_gone_is_not_eligible() -> None:
    active = cluster()
    altered(active, given.proposal(active, "t", 1, (1,)))
    everybody = given.proposal(active, "t", 1, (1, 2, 3))

    active.heartbeat(3, want_fence=True)
    assert altered(active, everybody).error.code is ErrorCode.ineligible_replica
    active.heartbeat(3)
    assert altered(active, everybody).error.code is ErrorCode.none


def test_a_follower_restarted_since_is_not_eligible() -> None:
    active = cluster()
    altered(active, given.proposal(active, "t", 1, (1, 2)))
    old = given.proposal(active, "t", 1, (1, 2, 3))
    active.reply(given.registration(3, incarnation=2))
    active.heartbeat(3)

    assert altered(active, old).error.code is ErrorCode.ineligible_replica
    assert altered(active, given.proposal(active, "t", 1, (1, 2, 3))).error.code is ErrorCode.none


def test_one_partition_stands_and_another_falls() -> None:
    active = cluster()
    good = given.proposal(active, "t", 1, (1, 2)).partitions[0]
    bad = PartitionAlteration(good.topic_id, 9, 0, good.isr, 0)

    replies = active.reply(AlterPartition(1, active.image.brokers[1].epoch, (bad, good)))

    assert [reply.error.code for reply in replies] == [ErrorCode.unknown_topic_or_partition, ErrorCode.none]


def test_a_leader_says_that_it_has_recovered() -> None:
    active = cluster()
    topic_id = active.image.topic_ids["t"]
    unclean = PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1,), leader=1, leader_recovery_state=1)
    active.image = given.after(active.image, unclean)

    still = altered(active, given.proposal(active, "t", 1, (1,), leader_recovery_state=1))
    too_early = altered(active, given.proposal(active, "t", 1, (1, 2), leader_recovery_state=1))
    recovered = altered(active, given.proposal(active, "t", 1, (1, 2)))

    assert still.error.code is ErrorCode.none
    assert too_early.error.code is ErrorCode.invalid_request
    assert (recovered.leader_recovery_state, recovered.isr) == (LeaderRecoveryState.RECOVERED, (1, 2))


# -- reassignments end with the ISR that they wait for


def reassign(active: given.Active, replicas: tuple[int, ...] | None) -> ErrorCode:
    request = AlterPartitionReassignments((("t", (Reassignment(0, replicas),)),))
    ((_, ((_, error),)),) = active.reply(request)
    return error.code


def test_replicas_move_when_the_new_ones_are_in_sync() -> None:
    active = cluster()

    assert reassign(active, (4, 2, 3)) is ErrorCode.none
    moving = active.partition("t")
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ((4, 2, 3, 1), (4,), (1,))
    assert (moving.leader, moving.leader_epoch, moving.isr) == (1, 0, (1, 2, 3))
    assert moving.directories[0] == given.directory(4)

    reply = altered(active, given.proposal(active, "t", 1, (1, 2, 3, 4)))

    moved = active.partition("t")
    assert reply.error.code is ErrorCode.new_leader_elected
    assert (moved.replicas, moved.isr, moved.leader) == ((4, 2, 3), (2, 3, 4), 4)
    assert not moved.is_reassigning
    assert moved.directories == tuple(map(given.directory, (4, 2, 3)))


def test_a_leader_that_stays_completes_the_move_in_a_new_epoch() -> None:
    active = cluster()
    reassign(active, (1, 2, 4))

    reply = altered(active, given.proposal(active, "t", 1, (1, 2, 3, 4)))

    assert (reply.error.code, reply.leader, reply.leader_epoch, reply.isr) == (ErrorCode.none, 1, 1, (1, 2, 4))


def test_a_new_replica_that_is_not_in_sync_keeps_the_move_waiting() -> None:
    active = cluster(brokers=5)
    reassign(active, (1, 4, 5))

    altered(active, given.proposal(active, "t", 1, (1, 2, 3, 4)))
    assert active.partition("t").is_reassigning
    altered(active, given.proposal(active, "t", 1, (1, 4, 5)))
    assert not active.partition("t").is_reassigning


def test_fewer_replicas_wait_until_all_that_stay_are_in_sync() -> None:
    active = cluster()
    altered(active, given.proposal(active, "t", 1, (1, 2)))
    reassign(active, (1, 3))
    assert active.partition("t").is_reassigning

    altered(active, given.proposal(active, "t", 1, (1, 2, 3)))

    assert (active.partition("t").replicas, active.partition("t").isr) == ((1, 3), (1, 3))


def test_more_replicas_only_add() -> None:
    active = cluster(replicas=(1,))

    reassign(active, (1, 2, 3))
    partition = active.partition("t")
    assert (partition.adding_replicas, partition.removing_replicas, partition.isr) == ((2, 3), (), (1,))
    altered(active, given.proposal(active, "t", 1, (1, 2, 3)))

    assert (active.partition("t").replicas, active.partition("t").is_reassigning) == ((1, 2, 3), False)


def test_a_move_that_is_called_off_leaves_what_was() -> None:
    active = cluster()
    reassign(active, (4, 2))
    altered(active, given.proposal(active, "t", 1, (1, 2, 3)))

    assert reassign(active, None) is ErrorCode.none

    partition = active.partition("t")
    assert (sorted(partition.replicas), partition.isr, partition.leader) == ([1, 2, 3], (1, 2, 3), 1)
    assert not partition.is_reassigning
    assert reassign(active, None) is ErrorCode.no_reassignment_in_progress


def test_without_new_replicas_a_move_is_done_at_once() -> None:
    active = cluster()
    reassign(active, (2, 3))
    assert active.partition("t").replicas == (2, 3)
    assert (active.partition("t").leader, active.partition("t").leader_epoch) == (2, 1)


def test_a_move_can_be_changed_under_way() -> None:
    active = cluster(brokers=5)
    reassign(active, (4, 2, 3))
    reassign(active, (5, 2, 3))

    partition = active.partition("t")
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == (
        (5, 2, 3, 1, 4),
        (5,),
        (1, 4),
    )


def test_a_move_that_is_turned_back_under_way_comes_to_its_end() -> None:
    active = cluster()
    reassign(active, (4, 2, 3))

    reassign(active, (1, 2, 3))

    partition = active.partition("t")
    assert (partition.replicas, partition.isr, partition.is_reassigning) == ((1, 2, 3), (1, 2, 3), False)
