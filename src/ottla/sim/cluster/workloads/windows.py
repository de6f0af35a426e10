"""Topics that keep the last few seconds, or so many bytes, and of which somebody deletes what he has read.

What is gone must have been too old by some node's clock, too much, or asked to be deleted. Nothing else is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ClassVar, Final

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.client import ClusterClient, Leader
from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.oracle import NOBODY
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.cluster.producers import IdempotentProducer, PlainProducer
from ottla.sim.cluster.topics import create
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import NoAnswer

DELETE_RECORDS: Final = 21
_RULES: Final[tuple[dict[str, str], ...]] = (
    {"retention.ms": "4000"},
    {"retention.ms": "12000"},
    {"retention.ms": "10000000", "retention.bytes": "12000"},
    {"retention.ms": "10000000", "retention.bytes": "20000"},
    {"retention.ms": "8000", "retention.bytes": "10000"},
)


class Windows(Workload):
    name: ClassVar[str] = "windows"

    async def prepare(self) -> None:
        self._random = random = self.cast.random(self.name)
        small = {"internal.segment.bytes": str(random.choice((3_000, 6_000))), "min.insync.replicas": "2"}
        shape = TopicShape("window", random.choice((1, 2)), 3, small | random.choice(_RULES))
        self._topic = await create(self.cast.keeper, shape)

    def start(self) -> None:
        cast, random, topic = self.cast, self._random, self._topic
        self._writers: list[ClusterClient] = []
        self._writing: list[Process[None]] = []
        client = cast.client("window-idempotent")
        partition = random.randrange(topic.partitions)
        self._run(client, IdempotentProducer(client, topic, partition, depth=random.choice((1, 5)), busy=0.8).run)
        client = cast.client("window-plain")
        self._run(client, PlainProducer(client, [topic], random.choice((1, -1)), 0.8).run)
        self._reader = cast.client("window-reader")
        self._consumer = Consumer(
            self._reader, max_wait_s=0.5, max_bytes=random.choice((3000, 1 << 20)), rest_s=random.choice((0.0, 0.4))
        )
        self._consumer.assign([topic])
        self._reading = cast.start(self._reader, self._consumer.run)
        if random.random() < 0.4:
            client = cast.client("window-deleter")
            self._run(client, lambda: self._delete(client))

    def _run(self, client: ClusterClient, main: Callable[[], Awaitable[None]]) -> None:
        self._writers.append(client)
        self._writing.append(self.cast.start(client, main))

    async def _delete(self, client: ClusterClient) -> None:
        """What the consumer has read, now and then."""
        while not client.stopping:
            await client.pause(1.0, 5.0)
            for key, place in self._consumer.places.items():
                await self._delete_below(client, key, place.position)
            await client.refresh()

    async def _delete_below(self, client: ClusterClient, key: PartitionId, offset: int) -> None:
        leader, story = client.leaders.get(key, Leader()).id, client.oracle.partitions[key]
        if leader == NOBODY:
            return
        story.to_delete = max(offset, story.to_delete)
        row = {"partition_index": key.partition, "offset": offset}
        topics = [{"name": self._topic.name, "partitions": [row]}]
        try:
            answer = await client.ask(leader, DELETE_RECORDS, 2, {"topics": topics, "timeout": timedelta(seconds=3)})
        except NoAnswer:
            return
        code: ErrorCode = answer.topics[0].partitions[0].error_code
        client.oracle.counts[f"delete records: {code.name}"] += 1

    async def finish(self) -> None:
        for client in self._writers:
            client.stopping = True
        await asyncio.gather(*self._writing)
        self._consumer.hurry()
        while not self._consumer.has_all(self.cast):
            await asyncio.sleep(0.1)
        self._reader.stopping = True
        await self._reading

    def unfinished(self) -> list[str]:
        return [process.name for process in (*self._writing, self._reading) if not process.done()]
