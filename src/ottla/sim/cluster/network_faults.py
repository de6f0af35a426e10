"""Hosts that do not hear each other, slow links, connections lost at any byte."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from copy import copy
from random import Random

from ottla.sim.network import SimNetwork
from ottla.sim.weather import Weather


class NetworkFaults:
    def __init__(self, network: SimNetwork, nodes: Sequence[str], clients: Sequence[str]) -> None:
        self._network = network
        self._nodes = nodes
        self._clients = clients
        self._calm = copy(network.weather)
        self.steps = {
            "partition": self._partition,
            "isolate": self._isolate,
            "link": self._link,
            "one way": self._one_way,
            "slow link": self._slow_link,
            "cut": self._cut,
            "bad network": self._bad_network,
        }

    def heal(self) -> None:
        self._network.heal()
        self._fair_weather()

    async def _partition(self, random: Random) -> None:
        """Two groups of nodes that do not hear each other; clients hear both."""
        hosts = list(self._nodes)
        random.shuffle(hosts)
        size = random.randint(1, len(hosts) - 1) if len(hosts) > 1 else 0
        await self._apart(random, [(one, other) for one in hosts[:size] for other in hosts[size:]])

    async def _isolate(self, random: Random) -> None:
        """One node from the rest of the world, or from all nodes, or from all clients."""
        host = random.choice(self._nodes)
        nodes = [other for other in self._nodes if other != host]
        others = random.choice(([*nodes, *self._clients], nodes, list(self._clients)))
        await self._apart(random, [(host, other) for other in others])

    async def _link(self, random: Random) -> None:
        """Two nodes do not hear each other; all others hear both."""
        if len(self._nodes) > 1:
            one, other = random.sample(list(self._nodes), 2)
            await self._apart(random, [(one, other)])

    async def _one_way(self, random: Random) -> None:
        host = random.choice(self._nodes)
        others = [other for other in self._nodes if other != host]
        chosen = random.sample(others, random.randint(1, len(others))) if others else []
        mute = random.random() < 0.5
        await self._apart(random, [(host, other) if mute else (other, host) for other in chosen], both=False)

    async def _apart(self, random: Random, pairs: list[tuple[str, str]], *, both: bool = True) -> None:
        for one, other in pairs:
            self._network.partition_one_way(one, other)
            if both:
                self._network.partition_one_way(other, one)
        try:
            await asyncio.sleep(_lasts_s(random))
        finally:
            for one, other in pairs:
                self._network.reconnect(one, other)

    async def _slow_link(self, random: Random) -> None:
        one, other = self._two(random)
        self._network.delay(one, other, random.choice((0.05, 0.3, 1.0)))
        await asyncio.sleep(_lasts_s(random))
        self._network.delay(one, other, 0.0)

    async def _cut(self, random: Random) -> None:
        one, other = self._two(random)
        if random.random() < 0.5:
            self._network.cut(one, other)
        else:
            self._network.cut_after(one, other, random.randint(0, 2000))

    def _two(self, random: Random) -> tuple[str, str]:
        return random.choice(self._nodes), random.choice([*self._nodes, *self._clients])

    async def _bad_network(self, random: Random) -> None:
        self._network.weather.longest_s = random.choice((0.02, 0.1, 0.4))
        self._network.weather.cut = random.choice((0.0, 0.01))
        await asyncio.sleep(random.uniform(0.5, 5.0))
        self._fair_weather()

    def _fair_weather(self) -> None:
        for name in Weather.__slots__:
            setattr(self._network.weather, name, getattr(self._calm, name))


def _lasts_s(random: Random) -> float:
    return random.choice((1.0, 4.0, 15.0)) * random.uniform(0.3, 1.0)
