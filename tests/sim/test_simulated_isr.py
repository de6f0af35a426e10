"""The look at in-sync replicas, in worlds where it is easily misled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.plan import Plan, Shape, TopicShape
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Variation

SHAPE = Shape((1, 2, 3), (101,))
TOPIC = TopicShape("orders", 1, 3, {"min.insync.replicas": "2"})
SLOW_S = 0.5


def plan() -> Plan:
    settings = Plan.drawn(Random(1)).settings | {"log.dirs": "/data"}
    settings.pop("metadata.log.dir", None)
    return Plan(SHAPE, settings, (TOPIC,))


async def a_follower_is_in_sync_before_it_serves(members: Sequence[Member], oracle: Oracle) -> None:
    """It hears late from the controller that it may serve. Its leader, who hears at once, takes it in meanwhile."""
    await asyncio.sleep(3.0)
    (story,) = (each for each in oracle.partitions.values() if each.name == "orders-0")
    (member,) = (each for each in members if each.id == next(each for each in story.isr if each != story.leader))
    network = member.host._network
    network.delay(member.host.name, "n101", SLOW_S)
    member.restart_after_s = (3.0, 3.0)
    member.kill()
    before_it_serves = set[bool]()
    while member.node is None or not before_it_serves:
        if member.host.is_up and member.id in story.isr:
            before_it_serves.add(member.node is None)
        await asyncio.sleep(0.01)
    network.delay(member.host.name, "n101", 0.0)
    assert before_it_serves == {True}


def test_who_is_in_sync_before_it_serves_is_seen_as_it_is_and_not_as_it_left() -> None:
    outcome = run(1, Variation(workloads=("records",)), plan=plan(), script=a_follower_is_in_sync_before_it_serves)

    assert not outcome.violations, outcome.report()


async def a_leader_dies_with_the_largest_log(members: Sequence[Member], oracle: Oracle) -> None:
    """Of what it had, others may have heard where it starts: its size counts until it is back, and a moment longer."""
    await asyncio.sleep(3.0)
    (story,) = (each for each in oracle.partitions.values() if each.name == "orders-0")
    (leader,) = (each for each in members if each.id == story.leader)
    leader.restart_after_s = (3.0, 3.0)
    size = leader.log_size(story.id)
    assert size > 0
    leader.power_loss()
    assert leader.log_size(story.id) == size
    await asyncio.sleep(2.0)
    assert leader.log_size(story.id) == size
    await leader.serving()
    replica = leader.node.replicas.by_id[story.id] if leader.node is not None else None
    await asyncio.sleep(1.0)
    assert replica is not None and leader.log_size(story.id) == replica.log.size


def test_how_large_the_log_of_a_dead_leader_was_is_known() -> None:
    outcome = run(1, Variation(workloads=("records",)), plan=plan(), script=a_leader_dies_with_the_largest_log)

    assert not outcome.violations, outcome.report()


async def a_leader_that_was_cut_off_is_cut(members: Sequence[Member], oracle: Oracle) -> None:
    """What nobody else has counts for what it gives up, and is gone when it is looked at next (seed 8000302)."""
    await asyncio.sleep(3.0)
    (story,) = (each for each in oracle.partitions.values() if each.name == "orders-0")
    (leader,) = (each for each in members if each.id == story.leader)
    replica = leader.node.replicas.by_id[story.id] if leader.node is not None else None
    assert replica is not None
    network, others = leader.host._network, [each.host.name for each in members if each is not leader]
    for other in others:
        network.partition(leader.host.name, other)
    while story.leader == leader.id:
        await asyncio.sleep(0.01)
    for other in others:
        network.reconnect(leader.host.name, other)
    before = 0
    while replica.log.cuts == 0:
        before = replica.log.size
        await asyncio.sleep(0.0001)
    assert replica.log.size < leader.log_size(story.id) <= before
    await asyncio.sleep(0.2)  # meanwhile it was looked at
    assert leader.log_size(story.id) == replica.log.size


def test_how_large_a_log_was_before_it_was_cut_is_known() -> None:
    outcome = run(1, Variation(workloads=("records",)), plan=plan(), script=a_leader_that_was_cut_off_is_cut)

    assert not outcome.violations, outcome.report()
