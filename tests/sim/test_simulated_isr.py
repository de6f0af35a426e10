"""The look at in-sync replicas, in worlds where it is easily misled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from tests.sim import planted_cluster_bugs as bugs

from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.plan import Plan, Shape, TopicShape
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Variation
from ottla.sim.outcome import Outcome

SHAPE = Shape((1, 2, 3), (101,))
TOPIC = TopicShape("orders", 1, 3, {"min.insync.replicas": "2"})
SLOW_S = 0.5


def plan() -> Plan:
    settings = Plan.drawn(Random(1)).settings | {"log.dirs": "/data"}
    settings.pop("metadata.log.dir", None)
    return Plan(SHAPE, settings, (TOPIC,))


async def a_follower_is_in_sync_before_it_serves(members: Sequence[Member], oracle: Oracle) -> None:
    """It hears late that it may serve, and gets late what it asks its leader for, who takes it in meanwhile."""
    await asyncio.sleep(3.0)
    (story,) = (each for each in oracle.partitions.values() if each.name == "orders-0")
    (member,) = (each for each in members if each.id == next(each for each in story.isr if each != story.leader))
    network = member.host._network
    for other in ("n101", f"n{story.leader}"):
        network.delay(member.host.name, other, SLOW_S)
    member.restart_after_s = (3.0, 3.0)
    member.kill()
    before_it_serves = set[bool]()
    while member.node is None or not before_it_serves:
        if member.host.is_up and member.id in story.isr:
            before_it_serves.add(member.node is None)
        await asyncio.sleep(0.01)
    for other in ("n101", f"n{story.leader}"):
        network.delay(member.host.name, other, 0.0)
    assert before_it_serves == {True}


def outcome() -> Outcome:
    return run(1, Variation(workloads=("records",)), plan=plan(), script=a_follower_is_in_sync_before_it_serves)


def test_who_is_in_sync_before_it_serves_is_seen_as_it_is_and_not_as_it_left() -> None:
    told = outcome()

    assert not told.violations, told.report()


def test_who_is_taken_in_too_early_is_found_before_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.take_a_follower_in_too_early(monkeypatch)

    assert any("is in the ISR of orders-0 with" in violation for violation in outcome().violations)
