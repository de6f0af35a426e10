"""One run: a node, its clients, everything that may go wrong, then healing, and the judgement.

outcome = run(seed=17)
assert not outcome.violations, outcome.report()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import Any, Final

from ottla.env.ports import Env
from ottla.sim.chaos import Chaos
from ottla.sim.checkers import check
from ottla.sim.history import History
from ottla.sim.log_files import PartitionId
from ottla.sim.node import PORT, SimNode
from ottla.sim.outcome import AFTER_A_VIOLATION_S, Outcome, watched_log
from ottla.sim.trace import Trace
from ottla.sim.weather import Weather
from ottla.sim.workload.client import Client, KnownTopic
from ottla.sim.workload.committer import Committer
from ottla.sim.workload.consumer import Consumer
from ottla.sim.workload.fleeting import FleetingTopics
from ottla.sim.workload.producers import IdempotentProducer, PlainProducer
from ottla.sim.workload.topics import TopicKeeper
from ottla.sim.world import World

# Where something changes; loading the schemas of all would take longer than a run.
PRODUCE_VERSIONS = (3, 8, 9, 13)
FETCH_VERSIONS = (5, 7, 12, 13, 18)

HEALED_WITHIN_S = 60.0
"""How long, once nothing is broken any more, until everything that was sent is acknowledged and read."""


def run(seed: int, *, rage_s: float = 12.0) -> Outcome:
    with World(seed, weather=Weather(patience_s=5.0)) as world:

        def end_soon() -> None:
            world.loop.time_limit = min(world.loop.time_limit, world.loop.time() + AFTER_A_VIOLATION_S)

        history = History(world.loop.time, end_soon)
        scenario = _Scenario(world, history, rage_s)
        with watched_log(history):
            try:
                world.run(scenario.story(), limit_s=600)
            except Exception as error:
                if not history.violations:
                    history.complain(f"the run ended with {error!r}")
                for one in getattr(error, "exceptions", ()):
                    history.complain(f"nobody handled {one!r}")
        history.counts.update(_seen_on_disk(world.trace))
        digest, violations = scenario.node.disk.digest(), check(history)
        return Outcome(seed, violations, history.counts, world.trace, digest, world.loop.time())


def _seen_on_disk(trace: Trace) -> Iterator[str]:
    for _, _, event, details in trace.events:
        if event.endswith(" failed"):
            yield "disk operations that failed"
        elif event == "disk create" and details.endswith(".log"):
            yield "segments made"
        elif event == "disk rename" and details.endswith(".log.deleted"):
            yield "segments deleted"


class _Scenario:
    def __init__(self, world: World, history: History, rage_s: float) -> None:
        self._world = world
        self._history = history
        self._rage_s = rage_s
        self._random: Random = world.random("scenario")
        self.node = SimNode(world, history, node_settings(self._random))
        self._clients: list[Client] = []
        self._running: list[Awaitable[Any]] = []

    async def story(self) -> None:
        world, random = self._world, self._random
        nursing = world.loop.create_task(self.node.keep_running(), name="nurse")
        keeper = TopicKeeper(self._client("keeper"))
        topics = [await keeper.create_surely(*shape) for shape in topic_shapes(random)]
        consumers = self._start_clients(topics)
        chaos = Chaos(world, self.node, [client.name for client in self._clients], self._history)
        await chaos.rage(self._rage_s)
        chaos.heal()
        await self._see_progress(consumers)
        await self._read_again(topics)
        # A clean stop has made everything durable, so that even a loss of power changes nothing.
        if random.random() < 0.5:
            self.node.stop()
            await self._until_down()
            self.node.power_loss()
            await self.node.serving()
            await self._read_again(topics)
        self.node.stop_for_good()
        await nursing

    # -- who takes part

    def _client(self, name: str) -> Client:
        host = self._world.host(name, skew_ms=self._random.choice((0, 0, -3000, 3000)))
        client = Client(
            name, host.env, self._world.random(f"client {name}"), self._history, (self.node.host.name, PORT)
        )
        self._clients.append(client)
        return client

    def _start(self, client: Client, main: Callable[[], Awaitable[None]]) -> None:
        async def process(env: Env) -> None:
            await main()

        self._running.append(self._world.host(client.name).start(process))

    def _start_clients(self, topics: list[KnownTopic]) -> list[Consumer]:
        random = self._random
        for number in range(random.choice((1, 2, 3))):
            client = self._client(f"idempotent-{number}")
            topic = random.choice(topics)
            idempotent = IdempotentProducer(
                client,
                topic,
                random.randrange(topic.partitions),
                version=random.choice(PRODUCE_VERSIONS),
                depth=random.choice((1, 1, 5)),
                acks=random.choice((-1, -1, 1)),
                busy=random.choice((0.1, 0.4, 1.0)),
            )
            self._start(client, idempotent.run)
        for number in range(random.choice((1, 2))):
            client = self._client(f"plain-{number}")
            plain = PlainProducer(client, topics, random.choice(PRODUCE_VERSIONS), random.choice((0.2, 0.4, 0.8)))
            self._start(client, plain.run)
        consumers = []
        for number in range(random.choice((1, 2))):
            client = self._client(f"consumer-{number}")
            consumer = self._consumer(client, min_bytes=random.choice((1, 1, 500)))
            consumer.assign(topics)
            consumers.append(consumer)
            self._start(client, consumer.run)
        client = self._client("fleeting")
        self._start(client, FleetingTopics(client).run)
        for number in range(random.choice((1, 2))):
            client = self._client(f"committer-{number}")
            topic = random.choice(topics)
            self._start(client, Committer(client, topic, random.randrange(topic.partitions)).run)
        return consumers

    def _consumer(self, client: Client, min_bytes: int = 1) -> Consumer:
        random = self._random
        return Consumer(
            client,
            random.choice(FETCH_VERSIONS),
            sessions=random.random() < 0.5,
            committed=random.random() < 0.5,
            max_wait_s=random.choice((0.1, 0.5, 2.0)),
            max_bytes=random.choice((1, 300, 5000, 1 << 20)),
            min_bytes=min_bytes,
        )

    # -- after the storm

    async def _see_progress(self, consumers: list[Consumer]) -> None:
        """Producers bring home what they have under way, consumers reach the end."""
        try:
            async with asyncio.timeout(HEALED_WITHIN_S):
                await asyncio.sleep(1.0)
                for client in self._clients:
                    if not client.name.startswith("consumer"):
                        client.stopping = True
                await asyncio.gather(*(running for running, client in self._pairs() if client.stopping))
                while not all(self._has_all(consumer) for consumer in consumers):
                    await asyncio.sleep(0.1)
                for client in self._clients:
                    client.stopping = True
                await asyncio.gather(*self._running)
        except TimeoutError:
            self._history.complain(f"no progress within {HEALED_WITHIN_S:g} s after everything was healed")

    def _pairs(self) -> Iterator[tuple[Awaitable[Any], Client]]:
        active = [client for client in self._clients if client.name != "keeper"]
        return zip(self._running, active, strict=True)

    def _has_all(self, consumer: Consumer) -> bool:
        node = self.node.node
        if node is None:
            return False
        ends = {PartitionId(log.topic_id, log.partition.partition): log.end_offset for log in node.logs.all_logs()}
        return all(place.position >= ends.get(key, 0) for key, place in consumer.places.items())

    async def _read_again(self, topics: list[KnownTopic]) -> None:
        """Somebody who knows nothing reads everything from the beginning."""
        name = f"auditor-{len(self._clients)}"
        client = self._client(name)
        consumer = self._consumer(client)
        consumer.assign(topics)
        try:
            async with asyncio.timeout(HEALED_WITHIN_S):

                async def read(env: Env) -> None:
                    while not self._has_all(consumer):
                        await consumer.poll()

                await self._world.host(name).start(read)
        except TimeoutError:
            self._history.complain(f"{name} could not read everything within {HEALED_WITHIN_S:g} s")

    async def _until_down(self) -> None:
        while self.node.host.is_up:
            await asyncio.sleep(0.001)


# -- what a seed chooses


_DISKS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"log.dirs": "/data,/more"},
    {"metadata.log.dir": "/meta", "log.dirs": "/data,/more"},
)


def node_settings(random: Random) -> dict[str, str]:
    """Everything that happens now and then happens often."""
    return {
        **random.choice(_DISKS),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": str(random.choice((1, 3))),
        "offsets.topic.replication.factor": "1",
        "log.initial.task.delay.ms": str(random.choice((100, 1000))),
        "log.retention.check.interval.ms": str(random.choice((300, 1500))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((200, 1000, 5000))),
        "log.flush.start.offset.checkpoint.interval.ms": str(random.choice((200, 1000, 5000))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((200, 1000, 5000))),
        "log.segment.delete.delay.ms": str(random.choice((0, 500, 60_000))),
        "log.cleaner.enable": "false",  # the checkers want every record back; tests/log/cleaning has its own crashes
    }


def topic_shapes(random: Random) -> list[tuple[str, int, dict[str, str]]]:
    """Names, partitions and configs: tiny segments and indexes, so that rolls are everywhere."""

    def small() -> dict[str, str]:
        return {
            "internal.segment.bytes": str(random.choice((600, 2_000, 10_000, 100_000))),
            "index.interval.bytes": str(random.choice((0, 100, 1000, 4096))),
            "segment.index.bytes": str(random.choice((36, 240, 10_000))),
        }

    return [
        ("steady", random.choice((1, 2)), small()),
        ("synced", random.choice((1, 2)), small() | {"flush.messages": "1"}),
        ("sometimes", 1, small() | {"flush.messages": "5", "message.timestamp.type": "LogAppendTime"}),
        ("aging", 1, small() | {"retention.bytes": str(random.choice((3_000, 20_000))), "retention.ms": "5000"}),
        ("keyed", 1, small() | {"cleanup.policy": "compact"}),
    ]
