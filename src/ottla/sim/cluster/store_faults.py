"""An object store that is slow, out of order, forgetful, or that lies."""

from __future__ import annotations

import asyncio
from random import Random

from ottla.sim.object_store import STORE_OPERATIONS, SimBucket, StoreMood


class StoreFaults:
    """One mood follows another; what the store has lost or damaged comes back when all is healed."""

    def __init__(self, bucket: SimBucket, hosts: list[str]) -> None:
        self._bucket = bucket
        self._hosts = hosts
        self.steps = {
            "slow store": self._slow,
            "store down": self._down,
            "unreliable store": self._unreliable,
            "lying store": self._lying,
            "store that gives other bytes": self._garbled,
            "lists come late": self._late_lists,
            "object lost": self._lose,
            "object damaged": self._damage,
        }

    def heal(self) -> None:
        self._bucket.heal()

    async def _slow(self, random: Random) -> None:
        await self._in_mood(random, StoreMood(longest_s=random.choice((0.3, 1.0, 6.0))))

    async def _down(self, random: Random) -> None:
        """For all or for some nodes, for all that is asked or a part of it."""
        some = random.sample(STORE_OPERATIONS, random.randint(1, len(STORE_OPERATIONS)))
        operations = random.choice((STORE_OPERATIONS, tuple(sorted(some))))
        hosts = frozenset(random.choice(([], random.sample(self._hosts, 1))))
        await self._in_mood(random, StoreMood(refuses=1.0, refused=operations, refused_hosts=hosts))

    async def _unreliable(self, random: Random) -> None:
        mood = StoreMood(longest_s=random.choice((0.03, 0.5)), refuses=random.choice((0.1, 0.5)))
        await self._in_mood(random, mood)

    async def _lying(self, random: Random) -> None:
        drops, shortens = random.choice(((0.3, 0.0), (0.0, 0.3), (0.15, 0.15), (1.0, 0.0)))
        await self._in_mood(random, StoreMood(drops=drops, shortens=shortens))

    async def _garbled(self, random: Random) -> None:
        cuts, flips = random.choice(((0.3, 0.0), (0.0, 0.3), (0.3, 0.3), (0.0, 1.0)))
        await self._in_mood(random, StoreMood(cuts=cuts, flips=flips))

    async def _late_lists(self, random: Random) -> None:
        await self._in_mood(random, StoreMood(lists_late_s=random.choice((1.0, 10.0))))

    async def _in_mood(self, random: Random, mood: StoreMood) -> None:
        bucket = self._bucket
        bucket.mood = mood
        await asyncio.sleep(random.choice((1.0, 4.0, 15.0)) * random.uniform(0.3, 1.0))
        if bucket.mood is mood:
            bucket.mood = StoreMood()

    async def _lose(self, random: Random) -> None:
        for key in self._some(random):
            self._bucket.lose(key)
        await self._come_back(random)

    async def _damage(self, random: Random) -> None:
        for key in self._some(random):
            if size := len(self._bucket.objects[key]):
                self._bucket.damage(key, random.randrange(size), random.randrange(8))
        await self._come_back(random)

    async def _come_back(self, random: Random) -> None:
        await asyncio.sleep(random.choice((1.0, 5.0, 60.0)))
        self._bucket.bring_back()

    def _some(self, random: Random) -> list[str]:
        keys = sorted(self._bucket.objects)
        return random.sample(keys, min(len(keys), random.choice((1, 3, 10))))
