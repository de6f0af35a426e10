"""A real node on a simulated host: started, killed, stopped, paused and started again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random
from typing import cast

from ottla.broker.node import Node
from ottla.broker.software import THIS
from ottla.env.loop_lag import LoopLag
from ottla.env.ports import Env
from ottla.model.config import BrokerConfig
from ottla.sim.disk import SimDisk
from ottla.sim.doorbell import Doorbell
from ottla.sim.executor import SimExecutor
from ottla.sim.faults import Moment
from ottla.sim.host import HostCrashed, Process
from ottla.sim.journal import Journal
from ottla.sim.world import World

_TOO_MANY = 50


class RunningNode:
    """`keep_running` starts it again whenever it is down, until `stop_for_good`."""

    def __init__(self, world: World, journal: Journal, config: BrokerConfig, name: str) -> None:
        self.host = world.host(name)
        self.config = config
        self.software = THIS
        """Of the next life."""
        self.restart_after_s = (0.05, 1.0)
        self.node: Node | None = None
        """While it serves."""
        self.stopped_cleanly = False
        self._journal = journal
        self._random: Random = world.random(f"{name}/restarts")
        self._stop: asyncio.Event | None = None
        self._wanted = True
        self._failed_starts = 0  # in a row
        self._process: Process[None] | None = None
        self._serving = asyncio.Event()
        self.host.before_end.append(self._end_of_life)

    @property
    def life(self) -> int:
        return self.host.incarnation.number if self.host.incarnation is not None else 0

    @property
    def disk(self) -> SimDisk:
        return self.host.disk

    # -- what others want to know or to add

    def _format(self, env: Env) -> None:
        """Before a start: folders as the node wants to find them."""

    def _began(self, node: Node) -> None:
        """It exists and has not yet started."""

    def _opened(self, node: Node) -> None:
        """It is about to serve: the last moment at which nobody can have changed anything."""

    def _died(self, disk: SimDisk, is_power_loss: bool) -> None:
        """With the disk as the dying process last saw it."""

    def _failed(self, error: Exception) -> None:
        """A life has ended by itself."""

    # -- running

    async def keep_running(self) -> None:
        while self._wanted and self._failed_starts < _TOO_MANY:
            self._process = self.host.start(self._main)
            try:
                await self._process
            except HostCrashed:
                pass
            except Exception as error:
                self._failed_starts += 1
                self._journal.counts["starts that failed"] += 1
                self._failed(error)
            if self.host.is_up:
                self.kill()
            if self._wanted:
                await asyncio.sleep(self._random.uniform(*self.restart_after_s))

    async def _main(self, env: Env) -> None:
        self._stop = stop = asyncio.Event()
        self.stopped_cleanly = False
        self._format(env)
        doorbell = Doorbell(env.network, lambda: self._opened(node))
        node = Node(replace(env, network=doorbell), self.config, self.software)
        node.loop_lag = _NeverLate(env.clock)
        self._began(node)
        await node.start()
        assert node.failed is not None
        node.failed.add_done_callback(lambda _: stop.set())
        self.node = node
        self._failed_starts = 0
        self._serving.set()
        await stop.wait()
        self._serving.clear()
        self.node = None
        node.raise_failure()
        await node.stop()
        node.raise_failure()
        self.stopped_cleanly = not self.disk.failures
        self._journal.counts["clean stops"] += 1

    async def serving(self) -> None:
        await self._serving.wait()

    def _end_of_life(self, disk: SimDisk, is_power_loss: bool) -> None:
        self._serving.clear()
        self.node = None
        self._journal.counts["power losses" if is_power_loss else "kills"] += not self.stopped_cleanly
        self._died(disk, is_power_loss)

    # -- ending

    def kill(self) -> None:
        """kill -9; but a machine whose disk failed to sync is switched off instead.

        Its page cache now shows, as clean pages, what the disk does not have: a process that starts on it cannot know.
        """
        if self.disk.failures["sync"]:
            self.host.power_loss()
        else:
            self.host.crash()

    def power_loss(self) -> None:
        self.host.power_loss()

    def die_at(self, operation: int, moment: Moment, *, power_loss: bool) -> None:
        """Plans a death at a disk operation that is to come."""
        if self.host.is_up:
            self.host.crash_at(operation, moment, power_loss=power_loss or bool(self.disk.failures["sync"]))

    def stop(self) -> None:
        """SIGTERM. The next life begins as after any other end."""
        if self._stop is not None and self.host.is_up:
            self._stop.set()

    def stop_for_good(self) -> None:
        self._wanted = False
        self.stop()

    def slow_down(self, longest_s: float) -> None:
        """How long a job in the executor may take, for the rest of this life."""
        if self.host.is_up:
            cast(SimExecutor, self.host.env.executor).longest_s = longest_s


class _NeverLate(LoopLag):
    """Time stands still while the simulated loop works: to measure its lag would only cost steps."""

    def start(self) -> None:
        pass
