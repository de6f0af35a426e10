"""Replication on this node: what its partitions ask of it, who follows whom, and who is dropped from in-sync sets."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.fetchers import Fetchers
from ottla.broker.isr_changes import IsrChanges
from ottla.broker.replication_quotas import FollowerQuota, LeaderQuota
from ottla.env.breath import Breath
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.env.timers import TimerWheel
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.log.truncation import Before
from ottla.metadata.controller_port import ControllerPort
from ottla.metadata.image import BrokerImage
from ottla.replica.isr import IsrChange
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.replicas import Replicas

_log = logging.getLogger("ottla.broker")


class Replication:
    """The Surroundings of all partitions of a node."""

    def __init__(
        self,
        env: Env,
        timers: TimerWheel,
        config: DynamicConfig,
        logs: LogManager,
        replicas: Replicas,
        controller: ControllerPort,
        broker_epoch: Callable[[], int],
    ) -> None:
        self.isr_changes = IsrChanges(env, controller, config.current.node_id, broker_epoch)
        self.follower_quota = FollowerQuota(env, config, lambda: replicas.image)
        self.leader_quota = LeaderQuota(env, config, lambda: replicas.image)
        self.fetchers = Fetchers(env, config, lambda: replicas.image, broker_epoch, self.follower_quota)
        self._env = env
        self._timers = timers
        self._config = config
        self._logs = logs
        self._replicas = replicas
        self._broker_epoch = broker_epoch
        self._is_stopped = False
        self._tasks = Tasks(lambda error: _log.error("in-sync replicas could not be looked after: %r", error))
        self._look_later()

    # -- what partitions ask

    @property
    def broker_epoch(self) -> int:
        return self._broker_epoch()

    @property
    def lag_time_max_s(self) -> float:
        return self._config.current.replica_lag_time_max_ms / 1000

    def broker(self, broker_id: int) -> BrokerImage | None:
        return self._replicas.image.brokers.get(broker_id)

    def alter_isr(self, partition: Partition, change: IsrChange) -> None:
        self.isr_changes.submit(partition, change)

    async def cut(
        self,
        log: PartitionLog,
        offset: int,
        is_wanted: Callable[[], bool],
        *,
        fully: bool = False,
        before: Before | None = None,
    ) -> bool:
        return await self._logs.cut(log, offset, is_wanted, fully=fully, before=before)

    def make_cut_durable_now(self, log: PartitionLog) -> None:
        self._logs.make_cut_durable_now(log)

    def log_start_moved(self, partition: Partition) -> None:
        self.fetchers.start_moved(partition)

    # -- following the metadata

    def placed(self, partition: Partition) -> None:
        """What the metadata says of a partition here has changed."""
        if partition.is_leader:
            self.fetchers.leave(partition)
        else:
            self.fetchers.follow(partition)

    def gone(self, partition: Partition) -> None:
        self.fetchers.leave(partition)

    # -- who is in sync

    def _look_later(self) -> None:
        self._timers.after(self._config.current.replica_lag_time_max_ms / 2, self._look)

    def _look(self) -> None:
        if not self._is_stopped:
            self._tasks.start(self._shrink(), "shrink in-sync sets")

    async def _shrink(self) -> None:
        try:
            breath = Breath(self._env.clock)
            for partition in [each for each in self._replicas.by_id.values() if each.leading is not None]:
                partition.shrink_isr()
                await breath.take()
        finally:
            self._look_later()

    async def stop(self) -> None:
        self._is_stopped = True
        await self.fetchers.stop()
        await self.isr_changes.stop()
        await self._tasks.stop()
