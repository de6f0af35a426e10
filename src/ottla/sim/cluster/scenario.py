"""One run: a cluster, its clients, everything that may go wrong, then healing, and the judgement.

outcome = run(seed=17)
assert not outcome.violations, outcome.report()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from ottla.env.ports import Env
from ottla.sim.cluster.chaos import Chaos
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.inspector import Inspector
from ottla.sim.cluster.member import PORT, Member, host_name
from ottla.sim.cluster.oracle import NOBODY, Oracle
from ottla.sim.cluster.plan import Plan
from ottla.sim.cluster.producers import IdempotentProducer, PlainProducer
from ottla.sim.cluster.topics import create
from ottla.sim.cluster.verdict import check_logs
from ottla.sim.host import Process
from ottla.sim.outcome import AFTER_A_VIOLATION_S, Outcome, watched_log
from ottla.sim.weather import Weather
from ottla.sim.workload.client import KnownTopic
from ottla.sim.world import World

RAGE_S = 50.0
LASTS_S = 60.0
FAULTS = 5
RECORDS = 1000
FORMED_WITHIN_S = 30.0
HEALED_WITHIN_S = 60.0
"""How long, once nothing is broken any more, until all replicas are in sync and all that was sent is acknowledged."""


COUNTED = {
    "%s is cut at offset %d, it ended at %d": "truncations",
    "%s starts anew at offset %d, it ended at %d": "truncations",
}
"""What the nodes log, and what it is counted as."""


def run(seed: int, *, rage_s: float = RAGE_S, plan: Plan | None = None) -> Outcome:
    with World(seed, weather=Weather(patience_s=8.0, pieces=0.05), cold_reads=0.02) as world:

        def end_soon() -> None:
            world.loop.time_limit = min(world.loop.time_limit, world.loop.time() + AFTER_A_VIOLATION_S)

        def note(event: str, details: str) -> None:
            world.trace.note("", event, details)

        oracle = Oracle(world.loop.time, end_soon, note)
        scenario = _Scenario(world, oracle, rage_s, plan or Plan.drawn(world.random("plan")))
        with watched_log(oracle, COUNTED):
            try:
                world.run(scenario.story(), limit_s=600)
            except Exception as error:
                if not oracle.violations:
                    oracle.complain(f"the run ended with {error!r}")
                for one in getattr(error, "exceptions", ()):
                    oracle.complain(f"nobody handled {one!r}")
        digest = " ".join(member.disk.digest() for member in scenario.members)
        return Outcome(seed, oracle.violations, oracle.counts, world.trace, digest, world.loop.time())


class _Scenario:
    def __init__(self, world: World, oracle: Oracle, rage_s: float, plan: Plan) -> None:
        self._world = world
        self._oracle = oracle
        self._rage_s = rage_s
        self._plan = plan
        self._random: Random = world.random("scenario")
        self.members = [Member(world, oracle, plan.node_settings(node)) for node in plan.shape.nodes]
        self._inspector = Inspector(self.members, oracle)
        self._clients: list[ClusterClient] = []
        self._producing: list[Process[None]] = []
        self._consuming: list[Process[None]] = []

    async def story(self) -> None:
        loop = self._world.loop
        nursing = [loop.create_task(member.keep_running(), name=f"nurse {member.id}") for member in self.members]
        watching = loop.create_task(self._inspector.watch(), name="inspector")
        keeper = self._client("keeper")
        topics = await self._within(FORMED_WITHIN_S, self._make_topics(keeper), "no cluster with its topics")
        consumers = self._start_clients(topics)
        chaos = Chaos(self._world, self.members, [client.name for client in self._clients], self._oracle)
        await chaos.rage(self._rage_s, FAULTS)
        await chaos.heal()
        await self._within(HEALED_WITHIN_S, self._heals(consumers), "no progress")
        await self._within(HEALED_WITHIN_S, self._audit(topics), "not everything could be read")
        watching.cancel()
        self._inspector.look()
        check_logs(self._oracle, self.members)
        for member in self.members:
            member.stop_for_good()
        await asyncio.gather(*nursing)

    async def _make_topics(self, keeper: ClusterClient) -> list[KnownTopic]:
        return [await create(keeper, shape) for shape in self._plan.topics]

    async def _within(self, seconds: float, work: Awaitable[Any], otherwise: str) -> Any:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            self._oracle.complain(f"{otherwise} within {seconds:g} s: {self._how_it_stands()}")
            raise

    def _how_it_stands(self) -> str:
        partitions = "; ".join(
            f"{story.name}: leader {story.leader} epoch {story.leader_epoch} ISR {story.isr} ELR {story.elr}"
            for story in self._oracle.partitions.values()
        )
        nodes = ", ".join(
            f"{member.id} {'serves' if member.node is not None else 'is up' if member.host.is_up else 'is down'}"
            for member in self.members
        )
        image = self._oracle.image
        fenced = [broker.id for broker in image.brokers.values() if broker.fenced] if image is not None else []
        busy = [process.name for process in (*self._producing, *self._consuming) if not process.done()]
        return f"{nodes}; fenced {fenced}; not yet done {busy}; {partitions}"

    # -- who takes part

    def _client(self, name: str) -> ClusterClient:
        host = self._world.host(name, skew_ms=self._random.choice((0, 0, -3000, 3000)))
        bootstrap = [(host_name(broker), PORT) for broker in self._plan.shape.brokers]
        client = ClusterClient(name, host.env, self._world.random(f"client {name}"), self._oracle, bootstrap)
        self._clients.append(client)
        return client

    def _start(self, client: ClusterClient, main: Callable[[], Awaitable[None]]) -> Process[None]:
        async def process(env: Env) -> None:
            await client.refresh()
            await main()

        return self._world.host(client.name).start(process)

    def _start_clients(self, topics: Sequence[KnownTopic]) -> list[Consumer]:
        random = self._random
        for number in range(random.choice((1, 2, 3))):
            client, topic = self._client(f"idempotent-{number}"), random.choice(topics)
            partition, depth = random.randrange(topic.partitions), random.choice((1, 1, 5))
            producer = IdempotentProducer(client, topic, partition, depth=depth, busy=random.choice((0.3, 0.8)))
            self._producing.append(self._start(client, producer.run))
        for number, acks in enumerate((-1, random.choice((0, 1, 1)))):
            client = self._client(f"plain-{number}")
            plain = PlainProducer(client, topics, acks, random.choice((0.3, 0.8)))
            self._producing.append(self._start(client, plain.run))
        client = self._client("consumer")
        consumer = Consumer(client, max_wait_s=0.5, max_bytes=random.choice((300, 5000, 1 << 20)))
        consumer.assign(topics)
        self._consuming.append(self._start(client, consumer.run))
        return [consumer]

    # -- after the storm

    async def _heals(self, consumers: Sequence[Consumer]) -> None:
        """Producers bring home what they have under way, all replicas are in sync again, consumers reach the end."""
        loop, oracle = self._world.loop, self._oracle
        while loop.time() < LASTS_S or oracle.acknowledged < RECORDS:
            await asyncio.sleep(0.5)
        for client in self._clients:
            client.stopping = client.name != "consumer"
        await asyncio.gather(*self._producing)
        while not (self._is_whole() and all(self._has_all(consumer) for consumer in consumers)):
            await asyncio.sleep(0.1)
        for client in self._clients:
            client.stopping = True
        await asyncio.gather(*self._consuming)

    def _is_whole(self) -> bool:
        return all(
            story.leader != NOBODY and set(story.isr) == set(story.replicas)
            for story in self._oracle.partitions.values()
        )

    def _has_all(self, consumer: Consumer) -> bool:
        """Up to the ends of the leaders' logs."""
        nodes = {member.id: member.node for member in self.members}
        for key, place in consumer.places.items():
            node = nodes.get(self._oracle.partitions[key].leader)
            partition = node.replicas.by_id.get(key) if node is not None else None
            if partition is None or place.position < partition.log.end_offset:
                return False
        return True

    async def _audit(self, topics: Sequence[KnownTopic]) -> None:
        """Somebody who knows nothing reads everything from the beginning."""
        client = self._client("auditor")
        consumer = Consumer(client, max_wait_s=0.1, max_bytes=1 << 20)
        consumer.assign(topics)

        async def read() -> None:
            while not self._has_all(consumer):
                await consumer.poll()

        await self._start(client, read)
