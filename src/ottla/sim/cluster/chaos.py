"""What goes wrong in a cluster, and when: each seed draws its own mix."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from random import Random

from ottla.sim.chaos import Mood
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.faults import Moment
from ottla.sim.weather import Weather
from ottla.sim.world import World

Step = Callable[[], Awaitable[None]]

_DOWN_S = ((0.02, 0.3), (0.1, 2.0), (3.0, 12.0))
"""How long a node may stay away: a quick restart, a usual one, one that outlasts its session."""


class Chaos:
    def __init__(self, world: World, members: Sequence[Member], clients: Sequence[str], oracle: Oracle) -> None:
        self._world = world
        self._members = members
        self._brokers = [member for member in members if member.is_broker]
        self._clients = clients
        self._oracle = oracle
        self._random: Random = world.random("chaos")
        self._calm = copy(world.network.weather)
        self._steps: dict[str, Step] = {
            "kill": self._kill,
            "kill a leader": self._kill_a_leader,
            "kill the controller": self._kill_the_controller,
            "kill several": self._kill_several,
            "power loss": self._power_loss,
            "power loss of several": self._power_loss_of_several,
            "power loss of all": self._power_loss_of_all,
            "death at an operation": self._death_at_operation,
            "stop": self._stop,
            "pause": self._pause,
            "partition": self._partition,
            "isolate": self._isolate,
            "one way": self._one_way,
            "slow link": self._slow_link,
            "cut": self._cut,
            "bad network": self._bad_network,
            "slow disk": self._slow_disk,
            "clock jump": self._clock_jump,
        }
        self._mood = Mood.drawn(self._random, list(self._steps))
        self._side: list[asyncio.Task[None]] = []

    async def rage(self, for_s: float, at_least: int) -> None:
        """Faults, some of them at the same time, until the time is over and there were enough."""
        loop, random = self._world.loop, self._random
        until = loop.time() + for_s
        pace = for_s / (at_least + random.choice((1, 4, 10)))
        faults = 0
        while loop.time() < until or faults < at_least:
            await asyncio.sleep(random.uniform(0.2, 1.8) * pace)
            (kind,) = random.choices(list(self._mood.weights), list(self._mood.weights.values()))
            self._oracle.counts[f"fault: {kind}"] += 1
            self._oracle.counts["faults"] += 1
            self._world.trace.note("", "fault", kind)
            self._side.append(self._world.loop.create_task(self._lasting(self._steps[kind]), name=kind))
            faults += 1

    async def _lasting(self, step: Step) -> None:
        await step()

    async def heal(self) -> None:
        """Everything works again, from the machines to the network between them."""
        for task in self._side:
            task.cancel()
        await asyncio.gather(*self._side, return_exceptions=True)
        self._world.network.heal()
        self._fair_weather()
        for member in self._members:
            member.host.resume()
            member.restart_after_s = (0.05, 1.0)
            member.slow_down(0.02)
            member.disk.forget_plans()

    # -- nodes

    def _some(self) -> Member:
        member = self._random.choice(self._members)
        self._away(member)
        return member

    def _away(self, member: Member) -> None:
        member.restart_after_s = self._random.choice(_DOWN_S)

    async def _kill(self) -> None:
        self._some().kill()

    async def _kill_a_leader(self) -> None:
        stories = list(self._oracle.partitions.values())
        if not stories:
            return
        leader = self._random.choice(stories).leader
        for member in self._members:
            if member.id == leader:
                self._away(member)
                member.kill()

    async def _kill_the_controller(self) -> None:
        for member in self._members:
            if member.is_active_controller:
                self._away(member)
                member.kill()

    async def _kill_several(self) -> None:
        for member in self._sample():
            self._away(member)
            member.kill()
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.5)))

    async def _power_loss(self) -> None:
        self._some().power_loss()

    async def _power_loss_of_several(self) -> None:
        for member in self._sample():
            self._away(member)
            member.power_loss()
            await asyncio.sleep(self._random.choice((0.0, 0.0, 0.5, 3.0)))

    async def _power_loss_of_all(self) -> None:
        for member in self._members:
            self._away(member)
            member.power_loss()

    def _sample(self) -> list[Member]:
        return self._random.sample(self._members, self._random.randint(2, len(self._members)))

    async def _death_at_operation(self) -> None:
        operation = self._random.choice((1, 3, 10, 30, 100))
        self._some().die_at(
            self._random.randint(1, operation),
            self._random.choice(list(Moment)),
            power_loss=self._random.random() < 0.5,
        )

    async def _stop(self) -> None:
        self._some().stop()

    async def _pause(self) -> None:
        host = self._random.choice(self._members).host
        host.pause()
        try:
            await asyncio.sleep(self._random.choice((0.3, 2.0, 5.0, 12.0)) * self._random.uniform(0.5, 1.0))
        finally:
            host.resume()

    async def _slow_disk(self) -> None:
        """Syncs take long: much has been appended, or acknowledged elsewhere, of which the disk knows nothing."""
        member = self._random.choice(self._members)
        member.slow_down(self._random.choice((0.1, 0.5, 2.0)))
        await asyncio.sleep(self._random.uniform(1.0, 6.0))
        member.slow_down(0.02)

    async def _clock_jump(self) -> None:
        self._random.choice(self._members).host.clock.skew_ms += self._random.randint(-20_000, 20_000)

    # -- the network

    def _hosts(self) -> list[str]:
        return [member.host.name for member in self._members]

    def _lasts_s(self) -> float:
        return self._random.choice((1.0, 4.0, 15.0)) * self._random.uniform(0.3, 1.0)

    async def _partition(self) -> None:
        """Two groups of nodes that do not hear each other; clients hear both."""
        hosts = self._hosts()
        self._random.shuffle(hosts)
        size = self._random.randint(1, len(hosts) - 1) if len(hosts) > 1 else 0
        await self._apart([(one, other) for one in hosts[:size] for other in hosts[size:]])

    async def _isolate(self) -> None:
        """One node from the rest of the world, or from all nodes, or from all clients."""
        host = self._random.choice(self._hosts())
        nodes = [other for other in self._hosts() if other != host]
        others = self._random.choice(([*nodes, *self._clients], nodes, list(self._clients)))
        await self._apart([(host, other) for other in others])

    async def _one_way(self) -> None:
        host = self._random.choice(self._hosts())
        others = [other for other in self._hosts() if other != host]
        chosen = self._random.sample(others, self._random.randint(1, len(others))) if others else []
        mute = self._random.random() < 0.5
        await self._apart([(host, other) if mute else (other, host) for other in chosen], both=False)

    async def _apart(self, pairs: list[tuple[str, str]], *, both: bool = True) -> None:
        network = self._world.network
        for one, other in pairs:
            network.partition_one_way(one, other)
            if both:
                network.partition_one_way(other, one)
        try:
            await asyncio.sleep(self._lasts_s())
        finally:
            for one, other in pairs:
                network.reconnect(one, other)

    async def _slow_link(self) -> None:
        network, delay = self._world.network, self._random.choice((0.05, 0.3, 1.0))
        one, other = self._random.choice(self._hosts()), self._random.choice([*self._hosts(), *self._clients])
        network.delay(one, other, delay)
        await asyncio.sleep(self._lasts_s())
        network.delay(one, other, 0.0)

    async def _cut(self) -> None:
        one, other = self._random.choice(self._hosts()), self._random.choice([*self._hosts(), *self._clients])
        if self._random.random() < 0.5:
            self._world.network.cut(one, other)
        else:
            self._world.network.cut_after(one, other, self._random.randint(0, 2000))

    async def _bad_network(self) -> None:
        self._world.network.weather.longest_s = self._random.choice((0.02, 0.1, 0.4))
        self._world.network.weather.cut = self._random.choice((0.0, 0.01))
        await asyncio.sleep(self._random.uniform(0.5, 5.0))
        self._fair_weather()

    def _fair_weather(self) -> None:
        for name in Weather.__slots__:
            setattr(self._world.network.weather, name, getattr(self._calm, name))
