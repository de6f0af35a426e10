"""Topics whose old part is in an object store that is slow, refuses and lies.

Whoever reads from the beginning gets every record that has not expired, wherever it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from random import Random
from typing import ClassVar, Final

from ottla.model.errors import ErrorCode
from ottla.model.names import REMOTE_METADATA_TOPIC
from ottla.sim.cluster.cleanup import Cleanup
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.cluster.producers import IdempotentProducer, PlainProducer
from ottla.sim.cluster.tier_watch import TierWatch
from ottla.sim.cluster.topics import create, watch
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import DELETE_TOPICS, KnownTopic, NoAnswer
from ottla.tier.remote_segment import RemotePartition

_FOREVER_MS: Final = 10**12
_A_COPY_S: Final = 0.25  # and more than it takes: two events, six objects
_KEPT: Final[tuple[dict[str, str], ...]] = (
    {},
    {},
    {"retention.ms": "12000"},
    {"retention.ms": "30000"},
    {"retention.ms": str(_FOREVER_MS), "retention.bytes": "20000"},
)
_KEPT_LOCALLY: Final[tuple[dict[str, str], ...]] = (
    {"local.retention.ms": "1"},
    {"local.retention.ms": "2000"},
    {"local.retention.bytes": "6000"},
)


class Tiers(Workload):
    name: ClassVar[str] = "tiers"
    has_store: ClassVar[bool] = True

    @classmethod
    def settings(cls, random: Random) -> Mapping[str, str]:
        return {
            "remote.log.storage.system.enable": "true",
            "rsm.config.url": "sim://tier",
            "rlmm.config.remote.log.metadata.topic.num.partitions": str(random.choice((1, 2))),
            "remote.log.manager.task.interval.ms": str(random.choice((200, 1_000))),
            "remote.log.manager.task.retry.backoff.ms": "100",
            "remote.log.manager.task.retry.backoff.max.ms": "1000",
            "remote.fetch.max.wait.ms": str(random.choice((100, 500))),
            "remote.log.reader.threads": str(random.choice((1, 10))),
            # So long an event of the tier may take, of which a copy has two: what has gathered in a storm of whole
            # length, hundreds of segments, is to be copied in the time that there is for healing.
            "replica.fetch.wait.max.ms": str(random.choice((20, 50))),
            "follower.fetch.last.tiered.offset.enable": random.choice(("true", "false")),
        }

    async def prepare(self) -> None:
        self._random = random = self.cast.random(self.name)
        self._topic = await create(
            self.cast.keeper, self._shape("archive", random.choice((1, 2)), random.choice(_KEPT))
        )
        self._passing = None
        if random.random() < 0.4:
            self._passing = await create(self.cast.keeper, self._shape("passing", 1, {}))
        await self._watch_metadata()

    def _shape(self, name: str, partitions: int, kept: Mapping[str, str]) -> TopicShape:
        random = self._random
        small = {
            "remote.storage.enable": "true",
            "min.insync.replicas": "2",
            "internal.segment.bytes": str(random.choice((1_500, 4_000))),
            "index.interval.bytes": str(random.choice((100, 4096))),
        }
        return TopicShape(name, partitions, 3, {**small, **kept, **random.choice(_KEPT_LOCALLY)})

    async def _watch_metadata(self) -> None:
        client = self.cast.keeper
        while True:
            try:
                topic = (await client.topics()).get(REMOTE_METADATA_TOPIC)
            except NoAnswer:
                topic = None
            if topic is not None:
                watch(client, topic, is_internal=True, cleanup=Cleanup(retention_ms=_FOREVER_MS))
                return
            await client.pause(0.05, 0.3)

    def start(self) -> None:
        cast, random, topic = self.cast, self._random, self._topic
        self._writers: list[ClusterClient] = []
        self._running: list[Process[None]] = []
        self._trouble: str | None = None
        for number in range(topic.partitions):
            client = cast.client(f"archive-idempotent-{number}")
            depth, busy = random.choice((1, 5)), random.choice((0.6, 1.6))
            self._run(client, IdempotentProducer(client, topic, number, depth=depth, busy=busy).run)
        client = cast.client("archive-plain")
        self._run(client, PlainProducer(client, [topic], random.choice((1, -1, -1)), 1.0).run)
        if self._passing is not None:
            client, passing = cast.client("passing"), self._passing
            self._run(client, lambda: self._pass(client, passing))
        self._reader = self._a_reader("archive-reader", random.choice((0.0, 0.4)))
        self._newcomer = cast.client("archive-newcomer")
        self._run(self._newcomer, self._begin_again_and_again)
        self.watch = TierWatch(cast, cast.world.bucket)
        self._watching = cast.world.loop.create_task(self.watch.watch(), name="tier watch")

    def _run(self, client: ClusterClient, main: Callable[[], Awaitable[None]]) -> None:
        self._writers.append(client)
        self._running.append(self.cast.start(client, main))

    def _a_reader(self, name: str, rest_s: float) -> _Reader:
        client, max_bytes = self.cast.client(name), self._random.choice((3000, 20_000, 1 << 20))
        consumer = Consumer(client, max_wait_s=0.5, max_bytes=max_bytes, rest_s=rest_s)
        consumer.assign([self._topic])
        return _Reader(client, consumer, self.cast.start(client, consumer.run))

    async def _begin_again_and_again(self) -> None:
        """From the earliest offset to the end, or as far as it comes."""
        client = self._newcomer
        while not client.stopping:
            consumer = Consumer(client, max_wait_s=0.2, max_bytes=client.random.choice((2000, 1 << 20)))
            consumer.assign([self._topic])
            for _ in range(client.random.choice((5, 50))):
                if client.stopping or consumer.has_all(self.cast):
                    break
                await consumer.poll()
            client.oracle.counts["newcomers"] += 1
            await client.pause(0.5, 4.0)

    async def _pass(self, client: ClusterClient, topic: KnownTopic) -> None:
        """Some seconds of a topic that is deleted then, with all that it has in the store."""
        producer = PlainProducer(client, [topic], -1, 0.3)
        writing = asyncio.ensure_future(producer.run())
        await client.pause(5.0, 20.0)
        client.stopping = True
        await writing
        client.stopping = False
        for number in range(topic.partitions):
            client.oracle.forget(PartitionId(topic.id, number))
        while True:
            request = {"topics": [{"name": None, "topic_id": topic.id}], "timeout": timedelta(seconds=3)}
            try:
                answer = await client.ask_any(DELETE_TOPICS, 6, request)
                if answer.responses[0].error_code in (ErrorCode.none, ErrorCode.unknown_topic_id):
                    break
            except NoAnswer:
                await client.refresh()
            await client.pause(0.1, 0.5)
        self.watch.gone += [RemotePartition(topic.name, topic.id, number) for number in range(topic.partitions)]
        client.oracle.counts["tiered topics deleted"] += 1

    # -- the end

    async def finish(self) -> None:
        for client in self._writers:
            client.stopping = True
        await asyncio.gather(*self._running)
        await self._reader.to_the_end(self)
        await self._a_reader("archive-auditor", 0.0).to_the_end(self)
        while (trouble := self.watch.trouble()) is not None:
            self._trouble = trouble
            await asyncio.sleep(0.2)
        self._trouble = None
        self.watch.look()
        self._watching.cancel()
        self.watch.count()

    def more_s(self) -> float:
        """Segments of a partition are copied one after the other, and in a storm of whole length hundreds gather."""
        return _A_COPY_S * self.watch.segments_at_most()

    def unfinished(self) -> list[str]:
        names = [process.name for process in (*self._running, self._reader.running) if not process.done()]
        return names if self._trouble is None else [*names, self._trouble]


class _Reader:
    def __init__(self, client: ClusterClient, consumer: Consumer, running: Process[None]) -> None:
        self.running = running
        self._client = client
        self._consumer = consumer

    async def to_the_end(self, workload: Tiers) -> None:
        self._consumer.hurry()
        while not self._consumer.has_all(workload.cast):
            await asyncio.sleep(0.1)
        self._client.stopping = True
        await self.running
