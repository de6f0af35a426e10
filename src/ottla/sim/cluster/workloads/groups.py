"""Consumer groups of both protocols: each partition has one owner, who goes on where the group was."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from ottla.sim.cluster.groups.classic import ClassicMember
from ottla.sim.cluster.groups.consumer_protocol import ConsumerMember
from ottla.sim.cluster.groups.member import GroupState, Member
from ottla.sim.cluster.groups.offsets_topic import watched_offsets_topic
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process


class _Groups(Workload):
    member: ClassVar[type[Member]]

    async def prepare(self) -> None:
        self._offsets = await watched_offsets_topic(self.cast)

    def start(self) -> None:
        random, topics = self.cast.random(self.name), list(self.cast.topics.values())
        group = f"group of {self.name}"
        chosen = random.sample(topics, random.randint(1, len(topics)))
        self._state = GroupState(self.cast, group, chosen, self._offsets(group))
        self._members = [
            self.member(self._state, f"{self.name}-{number}") for number in range(random.choice((1, 2, 2, 3)))
        ]
        self._running: list[Process[None]] = [self.cast.start(each.client, each.run) for each in self._members]

    async def finish(self) -> None:
        """Everything is read and committed; then they leave."""
        for member in self._members:
            member.hurry()
        while not self._state.is_done():
            await asyncio.sleep(0.1)
        for member in self._members:
            member.client.stopping = True
        await asyncio.gather(*self._running)

    def unfinished(self) -> list[str]:
        return [process.name for process in self._running if not process.done()]


class ClassicGroup(_Groups):
    name = "classic"
    member = ClassicMember


class ConsumerGroup(_Groups):
    name = "consumers"
    member = ConsumerMember
