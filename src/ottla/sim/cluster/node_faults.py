"""Nodes that die, stop, stand still, or have wrong clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.faults import Moment

_DOWN_S = ((0.02, 0.3), (0.1, 2.0), (3.0, 12.0))
"""How long a node may stay away: a quick restart, a usual one, one that outlasts its session."""


class NodeFaults:
    def __init__(self, members: Sequence[Member], oracle: Oracle) -> None:
        self._members = members
        self._oracle = oracle
        self.steps = {
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
            "clock jump": self._clock_jump,
        }

    def heal(self) -> None:
        for member in self._members:
            member.host.resume()
            member.restart_after_s = (0.05, 1.0)
            member.disk.forget_plans()

    def _some(self, random: Random) -> Member:
        return _away(random, random.choice(self._members))

    async def _kill(self, random: Random) -> None:
        self._some(random).kill()

    async def _kill_a_leader(self, random: Random) -> None:
        stories = list(self._oracle.partitions.values())
        if not stories:
            return
        leader = random.choice(stories).leader
        for member in self._members:
            if member.id == leader:
                _away(random, member).kill()

    async def _kill_the_controller(self, random: Random) -> None:
        for member in self._members:
            if member.is_active_controller:
                _away(random, member).kill()

    async def _kill_several(self, random: Random) -> None:
        for member in self._sample(random):
            _away(random, member).kill()
            await asyncio.sleep(random.choice((0.0, 0.0, 0.5)))

    async def _power_loss(self, random: Random) -> None:
        self._some(random).power_loss()

    async def _power_loss_of_several(self, random: Random) -> None:
        for member in self._sample(random):
            _away(random, member).power_loss()
            await asyncio.sleep(random.choice((0.0, 0.0, 0.5, 3.0)))

    async def _power_loss_of_all(self, random: Random) -> None:
        for member in self._members:
            _away(random, member).power_loss()

    def _sample(self, random: Random) -> list[Member]:
        return random.sample(self._members, random.randint(2, len(self._members)))

    async def _death_at_operation(self, random: Random) -> None:
        operation = random.choice((1, 3, 10, 30, 100))
        self._some(random).die_at(
            random.randint(1, operation), random.choice(list(Moment)), power_loss=random.random() < 0.5
        )

    async def _stop(self, random: Random) -> None:
        self._some(random).stop()

    async def _pause(self, random: Random) -> None:
        host = random.choice(self._members).host
        host.pause()
        try:
            await asyncio.sleep(random.choice((0.3, 2.0, 5.0, 12.0)) * random.uniform(0.5, 1.0))
        finally:
            host.resume()

    async def _clock_jump(self, random: Random) -> None:
        clock = random.choice(self._members).host.clock
        self._oracle.latest_ms = max(self._oracle.latest_ms, clock.now_ms())
        clock.skew_ms += random.randint(-20_000, 20_000)


def _away(random: Random, member: Member) -> Member:
    member.restart_after_s = random.choice(_DOWN_S)
    return member
