"""A world on virtual time: hosts, the network between them, a store for objects, and a trace of all that happens.

    with World(seed=7) as world:
        server, client = world.host("server"), world.host("client")

        async def story() -> None:
            server.start(run_broker)
            await client.start(produce_some)
            server.power_loss()
            server.start(run_broker)
            await client.start(read_it_back)

        world.run(story())
        print(world.trace_hash())

`story` belongs to no host and so survives them all. Everything random comes from the seed: a failure is repeated by its
number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from math import inf
from random import Random
from typing import Any, Self, TypeVar

from ottla.sim.host import Host, SimClock
from ottla.sim.incarnation import SimulatedCrash
from ottla.sim.loop import SimLoop
from ottla.sim.network import SimNetwork
from ottla.sim.object_store import SimBucket
from ottla.sim.trace import Trace
from ottla.sim.weather import Weather

T = TypeVar("T")

START_MS = 1_700_000_000_000


class World:
    def __init__(self, seed: int | str = 0, *, weather: Weather | None = None, cold_reads: float = 0.05) -> None:
        self.seed = seed
        self.loop = SimLoop()
        self.loop.set_exception_handler(self._unhandled)
        self.trace = Trace(self.loop.time)
        self.network = SimNetwork(self.loop, self.random("network"), weather=weather, observe=self.trace.note)
        self.bucket = SimBucket(
            self.loop, self.random("object store"), context=self.network.context, observe=self.trace.note
        )
        self.hosts: dict[str, Host] = {}
        self.errors: list[BaseException] = []
        """What a callback or a task raised and nobody handled: `run` raises them at its end."""
        self._cold_reads = cold_reads

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def random(self, purpose: str) -> Random:
        """A stream of random numbers of its own, so that more draws for one purpose do not change another."""
        return Random(f"{self.seed}/{purpose}")

    def host(self, name: str, *, skew_ms: int = 0, drift: float = 0.0) -> Host:
        """The host of that name, made on first use."""
        if name not in self.hosts:
            clock = SimClock(self.loop, START_MS, skew_ms, drift)
            self.hosts[name] = Host(
                name, self.loop, self.network, clock, self.trace, self.random, self._cold_reads, self.bucket
            )
        return self.hosts[name]

    def run(self, story: Coroutine[Any, Any, T], *, limit_s: float = inf) -> T:
        """Runs until the story ends. Errors in the background that nobody saw make it fail."""
        self.loop.time_limit = self.loop.time() + limit_s
        main = self.loop.create_task(story, name="story")
        try:
            result = self.loop.run_until_complete(main)
        except BaseException as error:
            error.add_note(f"simulated world, seed {self.seed!r}, at {self.loop.time():.6f} s")
            for other in self._unseen():
                error.add_note(f"before that nobody handled {type(other).__name__}: {other}")
            raise
        if unseen := self._unseen():
            raise BaseExceptionGroup(f"errors that nobody handled, in a simulated world of seed {self.seed!r}", unseen)
        return result

    def trace_hash(self) -> str:
        return self.trace.hash()

    def close(self) -> None:
        self.loop.close()

    def _unseen(self) -> list[BaseException]:
        processes = [process for host in self.hosts.values() for process in host.processes]
        failures = [error for process in processes if (error := process.take_failure()) is not None]
        unseen = [*self.errors, *failures]
        self.errors = []
        return unseen

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        owner = self.loop.running_for
        if isinstance(error, SimulatedCrash) or (owner is not None and not owner.alive):
            return
        error = RuntimeError(context["message"]) if error is None else error
        error.add_note(str(context["message"]))
        self.trace.note("" if owner is None else owner.host, "error", type(error).__name__)
        self.errors.append(error)
