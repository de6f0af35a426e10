"""Topics that come and go under the same few names, each written to and read for a while."""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.sim.log_files import PartitionId
from ottla.sim.workload.batches import Values
from ottla.sim.workload.client import Client, KnownTopic
from ottla.sim.workload.producers import send
from ottla.sim.workload.topics import TopicKeeper

_NAMES: Final = ("fleeting-0", "fleeting-1")
_BY_ID: Final = 13


class FleetingTopics:
    """The only one who makes, fills and deletes them. Names stay, ids do not: old records must never come back."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._keeper = TopicKeeper(client)
        self._values = Values(client.name, client.random, _BY_ID)
        self._there: dict[str, KnownTopic] = {}
        self._wanted: dict[str, tuple[int, dict[str, str]]] = {}  # until it is known to be there: an attempt may count

    async def run(self) -> None:
        client, random = self._client, self._client.random
        while not client.stopping:
            name = random.choice(_NAMES)
            topic = self._there.get(name)
            if topic is None:
                await self._make(name)
            elif random.random() < 0.25:
                if await self._keeper.delete(topic):
                    del self._there[name]
                    await self._keeper.check(name, None)
            else:
                await self._write(topic)
            await client.pause(0.0, 0.4)

    async def _make(self, name: str) -> None:
        if name not in self._wanted:
            self._wanted[name] = self._shape()
        partitions, configs = self._wanted[name]
        topic = await self._keeper.create(name, partitions, configs) or await self._keeper.find(name)
        if topic is not None:
            self._there[name] = topic
            del self._wanted[name]
            await self._keeper.check(name, topic.id)

    def _shape(self) -> tuple[int, dict[str, str]]:
        random = self._client.random
        configs = {"internal.segment.bytes": str(random.choice((600, 5000)))}
        if random.random() < 0.5:
            configs["flush.messages"] = "1"
        return random.choice((1, 2)), configs

    async def _write(self, topic: KnownTopic) -> None:
        now_ms = self._client.env.clock.now_ms()
        key = PartitionId(topic.id, self._client.random.randrange(topic.partitions))
        batches = [self._values.batch(topic.name, key, now_ms)]
        await send(self._client, _BY_ID, self._client.random.choice((1, -1)), batches)
        await asyncio.sleep(0)
