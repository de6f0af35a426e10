"""What goes wrong in a cluster, and when: each seed draws its own mix.

A fault is a function that is given random numbers of its own, so that one that is left out (`ottla sim shrink`) changes
nothing of the others. It ends when what it broke is whole again; if it is cut off, by the end of the storm, it has
to mend it all the same or leave that to `heal`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

from ottla.sim.cluster import schedule
from ottla.sim.cluster.disk_faults import DiskFaults
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.network_faults import NetworkFaults
from ottla.sim.cluster.node_faults import NodeFaults
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.schedule import Planned
from ottla.sim.cluster.store_faults import StoreFaults
from ottla.sim.cluster.variation import Variation
from ottla.sim.world import World

Step = Callable[[Random], Awaitable[None]]


class Chaos:
    def __init__(
        self,
        world: World,
        members: Sequence[Member],
        clients: Sequence[str],
        oracle: Oracle,
        variation: Variation,
        *,
        has_store: bool = False,
    ) -> None:
        self._world = world
        self._oracle = oracle
        self._nodes = NodeFaults(members, oracle)
        self._network = NetworkFaults(world.network, [member.host.name for member in members], clients)
        self._disks = DiskFaults(members, oracle)
        self._store = StoreFaults(world.bucket, [member.host.name for member in members])
        steps: Mapping[str, Step] = {**self._nodes.steps, **self._network.steps, **self._disks.steps}
        planned = schedule.draw(world.random("chaos"), variation.intensity, list(steps), variation.rage_s)
        if has_store:
            planned = self._with_store(planned, variation)
        self._steps = {**steps, **self._store.steps}
        self._ends_s = variation.ends_s
        self._planned = [
            each
            for each in planned
            if each.at_s <= self._ends_s and (variation.faults is None or each.number in variation.faults)
        ]
        self._under_way: list[asyncio.Task[None]] = []

    def _with_store(self, planned: list[Planned], variation: Variation) -> list[Planned]:
        """Drawn apart, with numbers that follow: the other faults of a seed are what they are without a store."""
        random = self._world.random("chaos of the store")
        more = schedule.draw(random, variation.intensity, list(self._store.steps), variation.rage_s)
        return sorted(
            [*planned, *(each._replace(number=len(planned) + each.number) for each in more)],
            key=lambda each: each.at_s,
        )

    async def rage(self) -> None:
        """Faults, some of them at the same time, until the time is over."""
        loop = self._world.loop
        began = loop.time()
        for number, at_s, kind in self._planned:
            await asyncio.sleep(began + at_s - loop.time())
            self._oracle.counts[f"fault: {kind}"] += 1
            self._oracle.counts["faults"] += 1
            self._world.trace.note("", "fault", f"{number}: {kind}")
            step = self._steps[kind](self._world.random(f"fault {number}"))
            self._under_way.append(loop.create_task(_awaited(step), name=kind))
        await asyncio.sleep(began + self._ends_s - loop.time())

    async def heal(self) -> None:
        """Everything works again, from the machines to the network between them."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        self._world.trace.note("", "healed", "nothing is broken any more")
        self._network.heal()
        self._store.heal()
        await self._disks.heal()
        self._nodes.heal()


async def _awaited(step: Awaitable[None]) -> None:
    await step
