"""One run: a cluster, its clients, everything that may go wrong, then healing, and the judgement.

outcome = run(seed=17)
assert not outcome.violations, outcome.report()
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from ottla.log.paths import LOG_SUFFIX, SWAP_SUFFIX
from ottla.sim.cluster import workloads
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.chaos import Chaos
from ottla.sim.cluster.consumer import Consumer
from ottla.sim.cluster.elections import elect
from ottla.sim.cluster.inspector import Inspector
from ottla.sim.cluster.logs import replica_logs
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import NOBODY, Oracle
from ottla.sim.cluster.plan import Plan
from ottla.sim.cluster.timeline import timeline
from ottla.sim.cluster.transactions.bank import ENDS_REFUSED
from ottla.sim.cluster.variation import AS_DRAWN, Variation
from ottla.sim.cluster.verdict import check_logs
from ottla.sim.cluster.workload import Workload
from ottla.sim.outcome import AFTER_A_VIOLATION_S, Outcome, watched_log
from ottla.sim.weather import Weather
from ottla.sim.world import World

FORMED_WITHIN_S = 30.0
ENOUGH_WITHIN_S = 120.0
_SWAPPING = f"{LOG_SUFFIX}{SWAP_SUFFIX}"
HEALED_WITHIN_S = 60.0
"""How long, once nothing is broken any more, until all replicas are in sync and all that was sent is acknowledged."""


COUNTED = {
    "%s is cut at offset %d, it ended at %d": "truncations",
    "%s starts anew at offset %d, it ended at %d": "truncations",
    "%s did not take the end of a transaction of %s (%s): it is another's by now": ENDS_REFUSED,
    "%s: offsets %d to %d are in the remote tier": "segments copied to the tier",
    "%s is on this disk from offset %d on (local retention)": "segments that only the tier has",
    "%s begins at %d; from %d on it is in the remote tier": "followers that begin after the tier",
}
"""What the nodes log, and what it is counted as."""


Script = Callable[[Sequence[Member], Oracle], Awaitable[None]]
"""What goes wrong, and in which order, instead of what a seed draws."""


def run(
    seed: int, variation: Variation = AS_DRAWN, *, plan: Plan | None = None, script: Script | None = None
) -> Outcome:
    with World(seed, weather=Weather(patience_s=8.0, pieces=0.05), cold_reads=0.02) as world:

        def end_soon() -> None:
            world.loop.time_limit = min(world.loop.time_limit, world.loop.time() + AFTER_A_VIOLATION_S)

        def note(event: str, details: str) -> None:
            world.trace.note("", event, details)

        oracle = Oracle(world.loop.time, end_soon, note)
        scenario = _Scenario(seed, world, oracle, plan or Plan.drawn(world.random("plan")), variation, script)
        with watched_log(oracle, COUNTED, world.trace.note):
            try:
                world.run(scenario.story(), limit_s=600)
            except Exception as error:
                if not oracle.violations:
                    oracle.complain(f"the run ended with {error!r}")
                for one in getattr(error, "exceptions", ()):
                    oracle.complain(f"nobody handled {one!r}")
        digest = " ".join(member.disk.digest() for member in scenario.members)
        told = timeline(world.trace, oracle) if oracle.complaints else ""
        return Outcome(seed, oracle.violations, oracle.counts, world.trace, digest, world.loop.time(), told)


class _Scenario:
    def __init__(
        self, seed: int, world: World, oracle: Oracle, plan: Plan, variation: Variation, script: Script | None
    ) -> None:
        self._world = world
        self._oracle = oracle
        self._variation = variation
        self._script = script
        names = workloads.drawn_by(seed) if variation.workloads is None else variation.workloads
        kinds = [workloads.WORKLOADS[name].kind for name in names]
        for kind in kinds:
            plan = replace(plan, settings={**plan.settings, **kind.settings(world.random(f"settings for {kind.name}"))})
        self._has_store = any(kind.has_store for kind in kinds)
        voters = plan.shape.voters()
        self.members = [
            Member(world, oracle, plan.node_settings(node), voters, plan.release) for node in plan.shape.nodes
        ]
        by_id = {member.id: member for member in self.members}
        oracle.log_of = lambda node, key: by_id[node].stored_logs().get(key)
        self._inspector = Inspector(self.members, oracle)
        self._cast = Cast(world, oracle, plan, self.members)
        self._begun: list[Workload] = []
        self._workloads: list[Workload] = [kind(self._cast) for kind in kinds]

    async def story(self) -> None:
        loop = self._world.loop
        nursing = [loop.create_task(member.keep_running(), name=f"nurse {member.id}") for member in self.members]
        watching = loop.create_task(self._inspector.watch(), name="inspector")
        await self._within(FORMED_WITHIN_S, self._prepare(), "no cluster with its topics")
        for workload in self._workloads:
            workload.start()
        self._begun = self._workloads
        names = [client.name for client in self._cast.clients]
        chaos = Chaos(self._world, self.members, names, self._oracle, self._variation, has_store=self._has_store)
        if self._script is None:
            await chaos.rage()
        else:
            await self._script(self.members, self._oracle)
        await chaos.heal()
        for workload in self._workloads:
            await workload.storm_is_over()
        operating = loop.create_task(self._operate(), name="operator")
        await self._within(ENOUGH_WITHIN_S, self._has_enough(), "not enough was acknowledged")
        more_s = max((workload.more_s() for workload in self._workloads), default=0.0)
        await self._within(HEALED_WITHIN_S + more_s, self._heals(), "no progress")
        await self._within(HEALED_WITHIN_S, self._audit(), "not everything could be read")
        await self._within(HEALED_WITHIN_S, self._has_swapped(), "segments were not cleaned to the end")
        operating.cancel()
        watching.cancel()
        self._inspector.look()
        self._judge()
        for member in self.members:
            member.stop_for_good()
        await asyncio.gather(*nursing)

    async def _prepare(self) -> None:
        await self._cast.make_topics()
        for workload in self._workloads:
            await workload.prepare()

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
        busy = [name for workload in self._begun for name in workload.unfinished()]
        return f"{nodes}; fenced {fenced}; not yet done {busy}; {partitions}"

    # -- after the storm

    async def _has_enough(self) -> None:
        """Producers go on after the storm, those that were kept from it too."""
        variation = self._variation
        while self._world.loop.time() < variation.lasts_s or self._oracle.acknowledged < variation.records:
            await asyncio.sleep(0.5)

    async def _heals(self) -> None:
        """Clients bring home what they have under way, and all replicas are in sync again."""
        await asyncio.gather(*(workload.finish() for workload in self._workloads))
        while not self._is_whole():
            await asyncio.sleep(0.1)

    async def _operate(self) -> None:
        """As a person would, after disks were lost for good: whoever is left shall lead."""
        while True:
            await asyncio.sleep(3.0)
            stuck = [story for story in self._oracle.partitions.values() if story.leader == NOBODY]
            for story in stuck:
                if self._oracle.needs_help(story):
                    await elect(self._cast.keeper, story, unclean=True)

    def _is_whole(self) -> bool:
        if any(member.node is None for member in self.members):
            return False
        return all(
            story.leader != NOBODY and set(story.isr) == set(story.replicas)
            for story in self._oracle.partitions.values()
        )

    async def _audit(self) -> None:
        """Somebody who knows nothing reads everything from the beginning."""
        client = self._cast.client("auditor")
        consumer = Consumer(client, max_wait_s=0.1, max_bytes=1 << 20)
        consumer.assign(self._cast.topics.values())

        async def read() -> None:
            while not consumer.has_all(self._cast):
                await consumer.poll()

        await self._cast.start(client, read)

    async def _has_swapped(self) -> None:
        """While cleaned segments take the place of others, files do not tell what is there."""
        while any(path.endswith(_SWAPPING) for member in self.members for path in member.disk.snapshot()):
            await asyncio.sleep(0.05)

    def _judge(self) -> None:
        logs = replica_logs(self.members)
        check_logs(self._oracle, logs)
        for workload in self._workloads:
            for violation in workload.verdict(logs):
                self._oracle.complain(violation)
