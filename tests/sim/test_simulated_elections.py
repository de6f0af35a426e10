"""Deaths in an order that could cost a record: whoever died last leads again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from tests.sim import planted_cluster_bugs as bugs

from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.cluster.plan import COMBINED, Plan, Shape, TopicShape
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Variation

ONE_CONTROLLER = Shape((1, 2, 3), (101,))
CONTROLLERS = Shape((1, 2, 3), (101, 102, 103))
TOPIC = TopicShape("orders", 1, 3, {"min.insync.replicas": "2"})
SESSION_S = 6.0
SEEDS = 2


def plan(shape: Shape, lag_s: float) -> Plan:
    """Nothing is synced by itself."""
    settings = Plan.drawn(Random(1)).settings | {
        "log.dirs": "/data",
        "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
        "broker.heartbeat.interval.ms": "1000",
        "replica.lag.time.max.ms": str(int(lag_s * 1000)),
        "controller.quorum.election.timeout.ms": "300",
        "controller.quorum.fetch.timeout.ms": "600",
        "log.flush.offset.checkpoint.interval.ms": "60000",
    }
    settings.pop("metadata.log.dir", None)
    return Plan(shape, settings, (TOPIC,))


@dataclass
class Cluster:
    members: Sequence[Member]
    oracle: Oracle

    @property
    def partition(self) -> PartitionStory:
        (story,) = (each for each in self.oracle.partitions.values() if each.name == "orders-0")
        return story

    def node(self, node_id: int) -> Member:
        (member,) = (each for each in self.members if each.id == node_id)
        return member

    @property
    def leader(self) -> Member:
        return self.node(self.partition.leader)

    @property
    def followers(self) -> list[Member]:
        return [self.node(each) for each in self.partition.isr if each != self.partition.leader]

    @property
    def controller(self) -> Member:
        (member,) = (each for each in self.members if each.is_active_controller)
        return member


Story = Callable[[Cluster], Awaitable[None]]


def off(member: Member, back_after_s: float) -> Member:
    member.restart_after_s = (back_after_s, back_after_s)
    return member


async def two_lose_power_and_the_leader_is_killed(cluster: Cluster) -> None:
    leader = cluster.leader
    for follower in cluster.followers:
        off(follower, 4.0).power_loss()
    await asyncio.sleep(1.5)
    off(leader, 1.0).kill()
    await asyncio.sleep(12.0)


async def the_leader_is_back_at_once(cluster: Cluster) -> None:
    leader = cluster.leader
    for follower in cluster.followers:
        off(follower, 4.0).power_loss()
    await asyncio.sleep(1.5)
    off(leader, 0.02).kill()
    await asyncio.sleep(12.0)


async def the_leader_loses_power_and_both_followers_are_killed(cluster: Cluster) -> None:
    followers = cluster.followers
    off(cluster.leader, 4.0).power_loss()
    await asyncio.sleep(1.5)
    for follower in followers:
        off(follower, 0.3).kill()
    await asyncio.sleep(12.0)


async def a_new_controller_has_heard_nothing_of_the_eligible(cluster: Cluster) -> None:
    """The leader has taken both out of the ISR; one is eligible, and by the metadata alive."""
    leader = cluster.leader
    for follower in cluster.followers:
        off(follower, 7.0).power_loss()
    await asyncio.sleep(3.0)
    assert cluster.partition.isr == (leader.id,)
    assert cluster.partition.elr
    off(cluster.controller, 0.5).kill()
    await asyncio.sleep(2.0)
    off(leader, 0.5).kill()
    await asyncio.sleep(12.0)


NEVER_S, SOON_S = 30.0, 1.0
APART = {"one controller": ONE_CONTROLLER, "controllers apart": CONTROLLERS}
# Where all nodes have died, and so all controllers, nobody knows who was the last: who led by the metadata is taken.
STORIES = [
    (story, name, lag_s)
    for story, shapes, lag_s in (
        (two_lose_power_and_the_leader_is_killed, (*APART, "combined"), NEVER_S),
        (the_leader_is_back_at_once, (*APART, "combined"), NEVER_S),
        (the_leader_loses_power_and_both_followers_are_killed, tuple(APART), NEVER_S),
        (a_new_controller_has_heard_nothing_of_the_eligible, ("controllers apart",), SOON_S),
    )
    for name in shapes
]


@pytest.mark.parametrize(("story", "shape", "lag_s"), STORIES, ids=lambda value: getattr(value, "__name__", value))
def test_who_died_last_leads_again(story: Story, shape: str, lag_s: float) -> None:
    assert [seed for seed in range(SEEDS) if records_lost(seed, story, shape, lag_s)] == []


def test_a_controller_that_elects_who_may_be_dead_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.elect_who_may_be_dead(monkeypatch)

    story, shape, lag_s = STORIES[0]
    assert any(records_lost(seed, story, shape, lag_s) for seed in range(SEEDS))


def records_lost(seed: int, story: Story, shape: str, lag_s: float) -> int:
    """Nobody may expect what all who were trusted have lost. Here one of them never does."""

    async def script(members: Sequence[Member], oracle: Oracle) -> None:
        await asyncio.sleep(3.0)
        await story(Cluster(members, oracle))

    outcome = run(seed, Variation(workloads=("records",)), plan=plan(APART.get(shape, COMBINED), lag_s), script=script)
    assert not outcome.violations, outcome.report()
    assert outcome.counts["logs cut by a loss of power"]
    return outcome.counts["records excused"]
