"""Producers of all kinds, and a consumer by assignment: what was acknowledged is there, and is what is read."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.producers import IdempotentProducer, PlainProducer
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process


class Records(Workload):
    name: ClassVar[str] = "records"

    def start(self) -> None:
        cast, random, topics = self.cast, self.cast.random(self.name), list(self.cast.topics.values())
        self._producing: list[Process[None]] = []
        self._producers = []
        for number in range(random.choice((1, 2, 3))):
            client, topic = cast.client(f"idempotent-{number}"), random.choice(topics)
            partition, depth = random.randrange(topic.partitions), random.choice((1, 1, 5))
            producer = IdempotentProducer(client, topic, partition, depth=depth, busy=random.choice((0.8, 1.6)))
            self._producers.append(client)
            self._producing.append(cast.start(client, producer.run))
        for number, acks in enumerate((-1, random.choice((0, 1, 1)))):
            client = cast.client(f"plain-{number}")
            plain = PlainProducer(client, topics, acks, random.choice((0.8, 1.6)))
            self._producers.append(client)
            self._producing.append(cast.start(client, plain.run))
        self._reader = cast.client("consumer")
        self._consumer = Consumer(
            self._reader,
            max_wait_s=0.5,
            max_bytes=random.choice((3000, 20_000, 1 << 20)),
            rest_s=random.choice((0.0, 0.2, 0.5)),
        )
        self._consumer.assign(topics)
        self._consuming = cast.start(self._reader, self._consumer.run)

    async def finish(self) -> None:
        """Producers bring home what they have under way; the consumer reaches the end."""
        for client in self._producers:
            client.stopping = True
        await asyncio.gather(*self._producing)
        self._consumer.hurry()
        while not self._consumer.has_all(self.cast):
            await asyncio.sleep(0.1)
        self._reader.stopping = True
        await self._consuming

    def unfinished(self) -> list[str]:
        return [process.name for process in (*self._producing, self._consuming) if not process.done()]
