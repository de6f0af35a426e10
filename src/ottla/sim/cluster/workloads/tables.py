"""Tables: compacted topics that are cleaned all the time, on every replica by itself, while nodes die and lose power.

Of each key the last value is kept. Whoever has read from the beginning to the end has the same table as everybody else,
whenever he began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ottla.record.records import Record
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.logs import ReplicaLogs
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.cluster.producers import IdempotentProducer, PlainProducer
from ottla.sim.cluster.topics import create
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.tables import TableValues, Written
from ottla.sim.workload.client import KnownTopic

_FOREVER_MS: Final = 10**9


class Tables(Workload):
    name: ClassVar[str] = "tables"

    async def prepare(self) -> None:
        self._random = random = self.cast.random(self.name)
        self._keeps_deletions = random.random() < 0.7
        configs = {
            "cleanup.policy": "compact",
            "min.insync.replicas": "2",
            "min.cleanable.dirty.ratio": str(random.choice((0.0, 0.0, 0.3))),
            "delete.retention.ms": str(_FOREVER_MS if self._keeps_deletions else 0),
            "internal.segment.bytes": str(random.choice((1_500, 5_000))),
            "index.interval.bytes": str(random.choice((0, 1000))),
        }
        if random.random() < 0.3:
            configs["flush.messages"] = "1"
        shape = TopicShape("table", random.choice((1, 2)), 3, configs)
        self._topic = await create(self.cast.keeper, shape)

    def start(self) -> None:
        self._producers: list[tuple[ClusterClient, Process[None]]] = []
        for number in range(self._random.choice((1, 2))):
            client = self.cast.client(f"table-{number}")
            producer = TableProducer(client, self._topic, self._random.randrange(self._topic.partitions))
            self._producers.append((client, self.cast.start(client, producer.run)))
        if self._random.random() < 0.5:
            client = self.cast.client("table-hasty")
            self._producers.append((client, self.cast.start(client, HastyProducer(client, self._topic).run)))
        self._follower = self._reader("table-follower")
        self._following = self.cast.start(self._follower.client, self._follower.run)

    def _reader(self, name: str) -> TableReader:
        max_bytes = self._random.choice((300, 20_000, 1 << 20))
        reader = TableReader(self.cast.client(name), max_wait_s=0.5, max_bytes=max_bytes, rest_s=0.2)
        reader.assign([self._topic])
        return reader

    async def finish(self) -> None:
        for client, _ in self._producers:
            client.stopping = True
        await asyncio.gather(*(process for _, process in self._producers))
        await self._until_read(self._follower)
        self._follower.client.stopping = True
        await self._following
        self._newcomer = self._reader("table-newcomer")
        reading = self.cast.start(self._newcomer.client, self._newcomer.run)
        await self._until_read(self._newcomer)
        self._newcomer.client.stopping = True
        await reading

    async def _until_read(self, reader: TableReader) -> None:
        reader.hurry()
        while not reader.has_all(self.cast):
            await asyncio.sleep(0.1)

    def unfinished(self) -> list[str]:
        return [process.name for _, process in self._producers if not process.done()]

    def verdict(self, logs: ReplicaLogs) -> Iterator[str]:
        """A reader who was there when a value was lost with all who had it may have it still."""
        for key, seen in self._newcomer.tables.items():
            story, followed = self.cast.oracle.partitions[key], self._follower.tables[key]
            for name in sorted(seen.keys() | followed.keys()):
                now, then = seen.get(name), followed.get(name)
                may_miss = not now and not self._keeps_deletions
                if now != then and not may_miss and not story.excuses:
                    yield f"who has followed {story.name} has {then!r} of {name!r}, a newcomer has {now!r}"


class TableProducer(IdempotentProducer):
    def __init__(self, client: ClusterClient, topic: KnownTopic, partition: int) -> None:
        busy = client.random.choice((0.3, 0.8))
        super().__init__(client, topic, partition, depth=client.random.choice((1, 5)), busy=busy)
        self._values: Any = TableValues(client.name, client.random, Written())


class HastyProducer(PlainProducer):
    """With acks=1: much is in a leader's log that is not committed, and must not replace what is."""

    def __init__(self, client: ClusterClient, topic: KnownTopic) -> None:
        super().__init__(client, [topic], acks=1, busy=0.4)
        self._values: Any = TableValues(client.name, client.random, Written())


class TableReader(Consumer):
    def __init__(self, client: ClusterClient, *, max_wait_s: float, max_bytes: int, rest_s: float) -> None:
        super().__init__(client, max_wait_s=max_wait_s, max_bytes=max_bytes, rest_s=rest_s)
        self.client = client
        self.tables: dict[PartitionId, dict[bytes, bytes | None]] = {}

    def assign(self, topics: Any) -> None:
        super().assign(topics)
        self.tables = {key: {} for key in self.places}

    def take(self, partition: PartitionId, record: Record) -> None:
        self.tables[partition][record.key or b""] = record.value
