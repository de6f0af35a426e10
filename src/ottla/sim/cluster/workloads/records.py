"""Producers of all kinds, and consumers by assignment: what was acknowledged is there, and is what is read.

One consumer follows the ends of the logs. In some seeds another comes now and then who knows nothing, and reads what
is old: rot in cold segments shows itself only to him.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import ClassVar, Final

from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.producers import IdempotentProducer, PlainProducer
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process

_NEWCOMERS: Final = 0.3  # of all seeds
_POLLS: Final = 50


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
        reader = cast.client("consumer")
        self._consumer = Consumer(
            reader,
            max_wait_s=0.5,
            max_bytes=random.choice((3000, 20_000, 1 << 20)),
            rest_s=random.choice((0.0, 0.2, 0.5)),
        )
        self._consumer.assign(topics)
        self._reading = [(reader, cast.start(reader, self._consumer.run))]
        newcomer = cast.client("newcomer")
        if newcomer.random.random() < _NEWCOMERS:
            self._reading.append((newcomer, cast.start(newcomer, partial(self._read_anew, newcomer))))

    async def _read_anew(self, client: ClusterClient) -> None:
        """Now and then all from the beginning, as far as it can be read in a while."""
        cast = self.cast
        while not client.stopping:
            rest_s = client.random.uniform(3.0, 20.0)
            while rest_s > 0 and not client.stopping:
                await asyncio.sleep(0.5)
                rest_s -= 0.5
            consumer = Consumer(client, max_wait_s=0.1, max_bytes=1 << 20)
            consumer.assign(cast.topics.values())
            for _ in range(_POLLS):
                await consumer.poll()
                if client.stopping or consumer.has_all(cast):
                    break

    async def finish(self) -> None:
        """Producers bring home what they have under way; the consumer reaches the end."""
        for client in self._producers:
            client.stopping = True
        await asyncio.gather(*self._producing)
        self._consumer.hurry()
        while not self._consumer.has_all(self.cast):
            await asyncio.sleep(0.1)
        for client, _ in self._reading:
            client.stopping = True
        await asyncio.gather(*(process for _, process in self._reading))

    def unfinished(self) -> list[str]:
        reading = [process for _, process in self._reading]
        return [process.name for process in (*self._producing, *reading) if not process.done()]
