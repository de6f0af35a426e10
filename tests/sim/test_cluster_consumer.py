"""A consumer in a simulated cluster, by itself."""

from __future__ import annotations

import asyncio
from random import Random
from uuid import UUID

import pytest

from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.consumer import Consumer, Place
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.log_files import PartitionId
from ottla.sim.world import World


class Polls(Consumer):
    """Each takes no time, and is noted."""

    def __init__(self, client: ClusterClient, rest_s: float) -> None:
        super().__init__(client, max_wait_s=0.5, max_bytes=3000, rest_s=rest_s)
        self.at: list[float] = []

    async def poll(self) -> None:
        self.at.append(asyncio.get_running_loop().time())
        if len(self.at) == 3:
            self.hurry()
        self._client.stopping = len(self.at) == 9


def test_a_consumer_rests_until_it_is_to_hurry() -> None:
    with World(1) as world:
        client = ClusterClient("c", world.host("c").env, Random(1), Oracle(world.loop.time), [])
        consumer = Polls(client, rest_s=10.0)
        world.run(consumer.run())

    assert consumer.at[0] < consumer.at[1] < consumer.at[2]
    assert len(set(consumer.at[2:])) == 1


@pytest.mark.parametrize(("leads", "complaints"), [(3, 1), (4, 0)])
def test_a_position_is_owed_by_who_leads(leads: int, complaints: int) -> None:
    """A leader that was cut off knows nothing of an offset that a group has committed with the next one."""
    with World(1) as world:
        oracle = Oracle(world.loop.time)
        client = ClusterClient("c", world.host("c").env, Random(1), oracle, [])
        key = PartitionId(UUID(int=5), 0)
        oracle.partitions[key] = PartitionStory(key, "orders-0", leader=leads)
        consumer = Consumer(client, max_wait_s=0.5, max_bytes=3000)
        consumer._check_place(Place("orders", key, 0, since=0.0), 3, 93, 0.0)

    assert len(oracle.violations) == complaints
