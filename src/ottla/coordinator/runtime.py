"""All shards of one internal topic on this node: who may ask which, and what becomes of them when leaders change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from ottla.coordinator.machine import Machine, Outcome
from ottla.coordinator.shard import Shard, State
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.env.timers import TimerWheel
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition

R = TypeVar("R")
M = TypeVar("M", bound=Machine)
_log = logging.getLogger("ottla.coordinator")
_LOADERS: Final = 2  # at a time: one reads while the other replays, and the loop has breath for its clients


class Runtime(Generic[M]):
    """Listens to the partitions of its topic: leading one means to coordinate what is in it."""

    def __init__(
        self, env: Env, timers: TimerWheel, make: Callable[[Shard[M]], M], reply_within_ms: int = 5000
    ) -> None:
        self._env = env
        self._timers = timers
        self._make = make
        self._reply_within_ms = reply_within_ms
        self._shards: dict[int, Shard[M]] = {}
        self._loaders = asyncio.Semaphore(_LOADERS)
        self._tasks = Tasks(lambda error: _log.error("a coordinator could not be loaded: %s", error, exc_info=error))

    # -- asking

    async def write(self, partition: int, operation: Callable[[M], Outcome[R]]) -> R:
        return await self.shard(partition).write(operation)

    def read(self, partition: int, operation: Callable[[M], R]) -> R:
        return self.shard(partition).read(operation)

    def shard(self, partition: int) -> Shard[M]:
        shard = self._shards.get(partition)
        if shard is None:
            raise KafkaError(ErrorCode.not_coordinator, "the coordinator is elsewhere")
        if shard.state is State.CLOSED and shard.partition.is_leader:  # it lost its place in the log
            shard = self._elect(shard.partition)
        shard.check()
        return shard

    @property
    def active(self) -> list[Shard[M]]:
        return list(self._shards.values())

    # -- leaders come and go

    def watch(self, partition: Partition) -> None:
        partition.listeners.append(self)
        if partition.is_leader:
            self._elect(partition)

    def leadership_changed(self, partition: Partition, led_before: bool) -> None:
        shard = self._shards.get(partition.key.partition)
        if shard is not None and (not partition.is_leader or shard.epoch != partition.leader_epoch):
            self._resign(partition)
        if partition.is_leader and partition.key.partition not in self._shards:
            self._elect(partition)

    def high_watermark_moved(self, partition: Partition, offset: int) -> None:
        shard = self._shards.get(partition.key.partition)
        if shard is not None:
            shard.committed(offset)

    def _elect(self, partition: Partition) -> Shard[M]:
        shard = Shard(self._env, self._timers, partition, self._make, self._reply_within_ms)
        self._shards[partition.key.partition] = shard
        self._tasks.start(self._load(shard), f"load {partition.key}")
        return shard

    async def _load(self, shard: Shard[M]) -> None:
        try:
            async with self._loaders:
                await shard.load()
        except BaseException:
            shard.close()
            if self._shards.get(shard.partition.key.partition) is shard:
                del self._shards[shard.partition.key.partition]
            raise

    def _resign(self, partition: Partition) -> None:
        self._shards.pop(partition.key.partition).close()

    async def settle(self) -> None:
        """Until all that is being loaded now is loaded."""
        await self._tasks.settle()

    async def stop(self) -> None:
        await self._tasks.stop()
        for shard in self._shards.values():
            shard.close()
        self._shards.clear()
