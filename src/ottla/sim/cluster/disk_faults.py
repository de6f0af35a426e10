"""Disks that are slow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle

_USUAL_S = 0.02


class DiskFaults:
    def __init__(self, members: Sequence[Member], oracle: Oracle) -> None:
        self._members = members
        self._oracle = oracle
        self.steps = {
            "slow disk": self._slow_disk,
        }

    def heal(self) -> None:
        for member in self._members:
            member.slow_down(_USUAL_S)

    async def _slow_disk(self, random: Random) -> None:
        """Syncs take long: much has been appended, or acknowledged elsewhere, of which the disk knows nothing."""
        member = random.choice(self._members)
        member.slow_down(random.choice((0.1, 0.5, 2.0)))
        await asyncio.sleep(random.uniform(1.0, 6.0))
        member.slow_down(_USUAL_S)
