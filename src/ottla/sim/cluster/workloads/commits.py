"""Groups without members, whose only client commits ever higher offsets and looks whether it finds them."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.groups.coordinator import Coordinator
from ottla.sim.cluster.groups.offsets_topic import watched_offsets_topic
from ottla.sim.cluster.groups.register import OffsetRegister
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import KnownTopic, NoAnswer


class Commits(Workload):
    name: ClassVar[str] = "commits"

    async def prepare(self) -> None:
        self._offsets = await watched_offsets_topic(self.cast)

    def start(self) -> None:
        random, topics = self.cast.random(self.name), list(self.cast.topics.values())
        self._committers: list[tuple[_Committer, Process[None]]] = []
        for number in range(random.choice((1, 2))):
            topic = random.choice(topics)
            committer = _Committer(self, f"committer-{number}", topic, random.randrange(topic.partitions))
            self._committers.append((committer, self.cast.start(committer.client, committer.run)))

    async def finish(self) -> None:
        for committer, _ in self._committers:
            committer.client.stopping = True
        await asyncio.gather(*(process for _, process in self._committers))

    def unfinished(self) -> list[str]:
        return [process.name for _, process in self._committers if not process.done()]

    def register(self, name: str, group: str) -> OffsetRegister:
        return OffsetRegister(self.cast.oracle, f"{name} by {group}", self._offsets(group))


class _Committer:
    """The only one who commits for its group, and for one partition alone."""

    def __init__(self, workload: Commits, name: str, topic: KnownTopic, partition: int) -> None:
        self.client = workload.cast.client(name)
        self._coordinator = Coordinator(self.client, f"group of {name}")
        self._key = PartitionId(topic.id, partition)
        self._names = {self._key: topic.name}
        self._register = workload.register(f"{topic.name}-{partition}", self._coordinator.group)
        self._next = 0

    async def run(self) -> None:
        while not self.client.stopping:
            await self._commit()
            if self.client.random.random() < 0.3:
                await self._look()
            await self.client.pause(0.1, 0.8)
        while not await self._look():
            await self.client.pause(0.05, 0.3)

    async def _commit(self) -> None:
        offset, since = self._next, self.client.oracle.now()
        self._next += 1
        self._register.asks(offset)
        try:
            codes = await self._coordinator.commit({self._key: offset}, self._names)
        except NoAnswer:
            await self.client.refresh()
            return
        if codes[self._key] is ErrorCode.none:
            self._register.acknowledged(offset, since)

    async def _look(self) -> bool:
        """False if there was no answer to look at."""
        try:
            found = await self._coordinator.committed([self._key], self._names)
        except NoAnswer:
            await self.client.refresh()
            return False
        if found is not None:
            self._register.finds(found[self._key], self.client.name)
        return found is not None
