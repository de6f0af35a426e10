"""FenceDeadBrokers: before their sessions are over, but never in favour of somebody who may have died before them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.metadata import given

from ottla.metadata.controller.requests import FenceBroker, FenceDeadBrokers, NewTopic
from ottla.model.errors import ErrorCode

REPLICAS = (1, 2, 3)


def cluster(*fenced: int, node_id: int = -1) -> given.Active:
    """One partition, led by broker 1, with min.insync.replicas=2."""
    topic = NewTopic("t", assignments=((0, REPLICAS),), configs=(("min.insync.replicas", "2"),))
    settings = replace(given.settings(), node_id=node_id)
    active = given.Active(given.with_topics(given.cluster(*REPLICAS), topic), settings)
    for broker_id in fenced:
        active.reply(FenceBroker(broker_id, active.image.brokers[broker_id].epoch))
    return active


def fence(active: given.Active, dead: tuple[int, ...], alive: tuple[int, ...]) -> int | None:
    incarnations = tuple((broker_id, active.image.brokers[broker_id].epoch) for broker_id in dead)
    return active.reply(FenceDeadBrokers(incarnations, frozenset(alive)))


def state(active: given.Active) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = active.partition("t")
    return partition.leader, partition.isr, partition.elr, partition.last_known_elr


@pytest.mark.parametrize(
    ("fenced", "dead", "alive", "then"),
    [
        ((), (1,), (2, 3), (2, (2, 3), (), ())),
        ((), (1,), (3,), (3, (2, 3), (), ())),  # 2 comes first, but may be dead
        ((), (2,), (1, 3), (1, (1, 3), (), ())),
        ((), (2,), (1,), (1, (1, 3), (), ())),  # who follows need not be alive
        ((3,), (1,), (2,), (2, (2,), (1,), ())),
        ((3, 2), (1,), (), (-1, (), (1, 2), (1,))),
        ((), (1, 2), (3,), (3, (3,), (1, 2), ())),
        ((), (1, 2, 3), (), (-1, (), (1, 2, 3), (1,))),  # nobody of them is elected on the way
    ],
)
def test_they_leave_and_who_is_alive_leads(
    fenced: tuple[int, ...], dead: tuple[int, ...], alive: tuple[int, ...], then: object
) -> None:
    active = cluster(*fenced)

    assert fence(active, dead, alive) is None
    assert state(active) == then
    assert [broker_id for broker_id in dead if not active.image.brokers[broker_id].fenced] == []


@pytest.mark.parametrize(
    ("fenced", "dead", "alive", "doubted"),
    [
        ((), (1,), (), 2),  # nobody who may lead is known to live
        ((3,), (1,), (3,), 2),  # 3 lives, but is not in sync
        ((), (2,), (3,), 1),  # the leader itself may have died first
        ((), (2, 3), (), 1),
    ],
)
def test_nobody_is_fenced_while_that_leaves_a_partition_to_someone_who_may_be_dead(
    fenced: tuple[int, ...], dead: tuple[int, ...], alive: tuple[int, ...], doubted: int
) -> None:
    active = cluster(*fenced)
    before = active.image

    assert fence(active, dead, alive) == doubted
    assert active.image is before


def test_the_leader_may_be_dead_where_the_dead_one_was_only_eligible() -> None:
    active = cluster(3)
    active.reply(given.proposal(active, "t", 1, (1,)))
    assert state(active) == (1, (1,), (2,), ())

    assert fence(active, (2,), ()) == 1, "if 1 died before, then 2 has what 1 may have lost"


def test_an_unclean_election_is_no_reason_not_to_wait() -> None:
    topic = NewTopic("t", assignments=((0, (1, 2, 3)),), configs=(("unclean.leader.election.enable", "true"),))
    active = given.Active(given.with_topics(given.cluster(1, 2, 3), topic))
    active.reply(given.proposal(active, "t", 1, (1, 2)))

    assert fence(active, (1,), (3,)) == 2


def test_a_broker_in_the_controllers_process_waits_for_those_who_may_be_dead() -> None:
    active = cluster(node_id=1)
    again = given.registration(1, incarnation=2)

    assert active.refusal(again) is ErrorCode.duplicate_broker_registration
    active.heartbeat(2)
    assert active.reply(again) == active.image.brokers[1].epoch
    assert state(active) == (2, (2, 3), (), ())


def test_a_broker_in_the_controllers_process_waits_for_nobody_who_is_fenced() -> None:
    active = cluster(2, 3, node_id=1)

    assert active.reply(given.registration(1, incarnation=2)) == active.image.brokers[1].epoch
