"""Answers of the brokers' own topics that nobody hears, although what was asked for comes to be.

For moments a follower of such a partition gets nothing from its leader, so that nothing is committed there, while the
connections of the others to the leader end again and again. Whoever has sent something is told that it failed; when the
follower is back all of it is committed, and those who have not waited for it have drawn their conclusions.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import ClassVar

from ottla.sim.cluster.member import host_name
from ottla.sim.cluster.oracle import PartitionStory
from ottla.sim.cluster.workload import Workload


class Unheard(Workload):
    name: ClassVar[str] = "unheard"

    def start(self) -> None:
        self._random = self.cast.random(self.name)
        self._running = self.cast.world.loop.create_task(self._again_and_again(), name="unheard answers")

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self._random.uniform(0.1, 1.0))
            stories = [each for each in self.cast.oracle.partitions.values() if each.is_internal and len(each.isr) > 2]
            if stories:
                await self._stall(self._random.choice(stories))

    async def _stall(self, story: PartitionStory) -> None:
        random, network = self._random, self.cast.world.network
        leader = host_name(story.leader)
        slow, *others = random.sample(
            [host_name(each) for each in story.isr if each != story.leader], len(story.isr) - 1
        )
        network.partition_one_way(leader, slow)
        network.partition_one_way(slow, leader)
        try:
            for _ in range(random.randint(2, 5)):
                await asyncio.sleep(random.uniform(0.1, 0.4))
                for other in others:
                    network.cut(leader, other)
            self.cast.oracle.counts["answers of internal topics lost"] += 1
            await asyncio.sleep(random.uniform(0.0, 0.1))
        finally:
            network.reconnect(leader, slow)

    async def storm_is_over(self) -> None:
        """Nobody would get much acknowledged beside it, and the rest of the run waits for that."""
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running
