"""What goes wrong in a run, and when: each seed draws its own mix, from calm to hostile."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from random import Random

from ottla.sim.faults import Fault, Moment, Operation
from ottla.sim.history import History
from ottla.sim.node import SimNode
from ottla.sim.weather import Weather
from ottla.sim.world import World

Step = Callable[[], Awaitable[None]]

_FAILING_FILES = (
    "*.log", "*.index", "*.timeindex", "*.snapshot*", "leader-epoch-checkpoint*", "*-checkpoint*",
    "*.kafka_cleanshutdown*",
    "/more/*", "/more",
    "/data/__cluster_metadata-0/*", "/data/synced-0/*", "/data/steady-0/*", "/data/*-0", "/data", "*",
)  # fmt: skip
_FAILING_OPERATIONS: tuple[tuple[Operation, ...], ...] = (
    ("write",), ("sync",), ("write", "sync"), ("create",), ("rename",), ("sync_dir",), ("truncate", "write"), ("read",),
    ("remove", "remove_dir", "make_dir"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mood:
    """How often each kind of fault is drawn, and how long one waits for the next."""

    weights: dict[str, int]
    shortest_s: float
    longest_s: float

    @classmethod
    def drawn(cls, random: Random, kinds: Sequence[str]) -> Mood:
        weights = {kind: random.choice((0, 1, 1, 3)) for kind in kinds}
        if not any(weights.values()):
            weights["kill"] = 1
        shortest = random.choice((0.05, 0.2, 0.5))
        return cls(weights, shortest, shortest * random.choice((2, 4)))


class Chaos:
    """Faults between the node, its disk and the clients, until the run has seen enough of them."""

    def __init__(self, world: World, node: SimNode, clients: Sequence[str], history: History) -> None:
        self._world = world
        self._node = node
        self._clients = clients
        self._history = history
        self._random = world.random("chaos")
        self._calm = copy(world.network.weather)
        self._steps: dict[str, Step] = {
            "kill": self._kill,
            "power loss": self._power_loss,
            "death at an operation": self._death_at_operation,
            "kill, then power loss": self._kill_then_power_loss,
            "stop": self._stop,
            "cut": self._cut,
            "cut at a byte": self._cut_at_byte,
            "partition": self._partition,
            "bad network": self._bad_network,
            "slow executor": self._slow_executor,
            "disk errors": self._disk_errors,
            "clock jump": self._clock_jump,
        }
        self._mood = Mood.drawn(self._random, list(self._steps))
        self._strikes = self._random.choice((0.0, 0.0, 0.1, 0.5))
        self._is_raging = False
        history.at_moments.append(self._maybe_strike)

    async def rage(self, for_s: float) -> None:
        loop, random = self._world.loop, self._random
        until = loop.time() + for_s
        self._is_raging = True
        while loop.time() < until:
            await asyncio.sleep(random.uniform(self._mood.shortest_s, self._mood.longest_s))
            (kind,) = random.choices(list(self._mood.weights), list(self._mood.weights.values()))
            self._history.counts[f"fault: {kind}"] += 1
            self._world.trace.note("", "fault", kind)
            await self._steps[kind]()
        self._is_raging = False

    def _maybe_strike(self) -> None:
        """When a promise has just been made, its breaking is most likely."""
        if self._is_raging and self._random.random() < self._strikes:
            self._history.counts["fault: power loss after a promise"] += 1
            after_s = self._random.choice((0.0, 0.001, 0.05, 0.3))
            self._world.loop.call_later(after_s, self._node.power_loss, context=self._world.network.context)

    def heal(self) -> None:
        """Everything works again; a node that saw its disk fail, or is about to die, must be started again for that."""
        self._world.network.heal()
        self._fair_weather()
        self._node.disk.heal()
        self._node.kill()

    # -- the node

    async def _kill(self) -> None:
        self._node.kill()

    async def _power_loss(self) -> None:
        self._node.power_loss()

    async def _kill_then_power_loss(self) -> None:
        """What the first left in the page cache, the next life may show to somebody before it is on disk."""
        self._node.kill()
        await self._node.serving()
        await asyncio.sleep(self._random.uniform(0.0, 0.5))
        self._node.power_loss()

    async def _death_at_operation(self) -> None:
        operation = self._random.choice((1, 3, 10, 30, 100))
        self._node.die_at(
            self._random.randint(1, operation),
            self._random.choice(list(Moment)),
            power_loss=self._random.random() < 0.5,
        )

    async def _stop(self) -> None:
        self._node.stop()
        if self._random.random() < 0.3:
            await self._death_at_operation()

    async def _slow_executor(self) -> None:
        """Syncs take long: much has been appended, or acknowledged elsewhere, of which the disk knows nothing."""
        self._node.slow_down(self._random.choice((0.1, 0.5, 2.0)))
        if self._random.random() < 0.3:
            await asyncio.sleep(self._random.uniform(0.2, 2.0))
            self._node.power_loss()

    async def _clock_jump(self) -> None:
        self._node.host.clock.skew_ms += self._random.randint(-20_000, 20_000)

    # -- the disk

    async def _disk_errors(self) -> None:
        random, disk = self._random, self._node.disk
        operations = random.choice(_FAILING_OPERATIONS)
        if "sync" in operations:  # see SimNode.kill
            self._node.host.power_loss_planned = True
        fault: Fault = disk.fail(
            random.choice(_FAILING_FILES),
            random.choice((errno.EIO, errno.ENOSPC)),
            operations,
            random.choice((1, 2, 10, None)),
        )
        await asyncio.sleep(random.uniform(0.1, 2.0))
        fault.heal()
        if disk is self._node.disk and disk.failures:
            await asyncio.sleep(random.uniform(0.0, 1.0))
            self._node.kill()

    # -- the network

    async def _cut(self) -> None:
        self._world.network.cut(self._random.choice(self._clients), self._node.host.name)

    async def _cut_at_byte(self) -> None:
        ends = [self._random.choice(self._clients), self._node.host.name]
        self._random.shuffle(ends)
        self._world.network.cut_after(ends[0], ends[1], self._random.randint(0, 500))

    async def _partition(self) -> None:
        network, client, node = self._world.network, self._random.choice(self._clients), self._node.host.name
        match self._random.randrange(3):
            case 0:
                network.partition(client, node)
            case 1:
                network.partition_one_way(client, node)
            case 2:
                network.partition_one_way(node, client)
        await asyncio.sleep(self._random.uniform(0.1, 5.0))
        network.heal()

    async def _bad_network(self) -> None:
        self._world.network.weather.longest_s = self._random.choice((0.02, 0.1, 0.6))
        self._world.network.weather.cut = self._random.choice((0.0, 0.01))
        await asyncio.sleep(self._random.uniform(0.2, 3.0))
        self._fair_weather()

    def _fair_weather(self) -> None:
        for name, value in _conditions(self._calm).items():
            setattr(self._world.network.weather, name, value)


def _conditions(weather: Weather) -> dict[str, float]:
    return {name: getattr(weather, name) for name in Weather.__slots__}
