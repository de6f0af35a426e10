"""One program after another under the same transactional id: they die between any two steps, or fall asleep and wake.

One that sleeps is taken for dead: the next is started. When it wakes up it goes on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Final

from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.transactions.producer import Abortable, Fenced, TransactionalProducer, Unknown

Life = Callable[[TransactionalProducer, "Incarnation"], Awaitable[None]]
_PER_STEP: Final = 0.006
_ASLEEP_S: Final = (1.0, 20.0)


class Died(Exception):
    pass


class Incarnation:
    def __init__(self, random: Random, client: ClusterClient) -> None:
        self.is_given_up = asyncio.Event()
        self._random = random
        self._client = client

    async def step(self, _: str) -> None:
        if self._client.stopping or self.is_given_up.is_set() or self._random.random() >= _PER_STEP:
            return
        if self._random.random() < 0.5:
            self._client.oracle.counts["programs that died"] += 1
            raise Died
        self._client.oracle.counts["programs that fell asleep"] += 1
        self.is_given_up.set()
        await asyncio.sleep(self._random.uniform(*_ASLEEP_S))
        self._client.oracle.counts["zombies that woke up"] += 1

    @property
    def goes_on(self) -> bool:
        return not (self._client.stopping or self.is_given_up.is_set())


class Incarnations:
    def __init__(self, client: ClusterClient, name: str, timeout_ms: int, life: Life, *, second_version: bool) -> None:
        self._client = client
        self._name = name
        self._timeout_ms = timeout_ms
        self._life = life
        self._second = second_version
        self._asleep: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        while not self._client.stopping:
            incarnation = Incarnation(self._client.random, self._client)
            living = asyncio.ensure_future(self._live(incarnation))
            given_up = asyncio.ensure_future(incarnation.is_given_up.wait())
            await asyncio.wait((living, given_up), return_when=asyncio.FIRST_COMPLETED)
            given_up.cancel()
            if living.done():
                living.result()
            else:
                self._asleep.append(living)
            await self._client.pause(0.0, 1.0)
        await asyncio.gather(*self._asleep)

    async def _live(self, incarnation: Incarnation) -> None:
        producer = TransactionalProducer(
            self._client, self._name, self._timeout_ms, incarnation.step, second_version=self._second
        )
        try:
            await producer.init()
            await self._life(producer, incarnation)
        except (Died, Unknown):
            pass
        except Abortable:  # not even the abort: as a client does, it begins anew
            self._client.oracle.counts["programs that gave up"] += 1
        except Fenced:
            self._client.oracle.counts["producers fenced"] += 1
