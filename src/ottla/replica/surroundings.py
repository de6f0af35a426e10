"""What a partition asks of the node around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.log.partition_log import PartitionLog
from ottla.log.truncation import Before
from ottla.metadata.image import BrokerImage

if TYPE_CHECKING:
    from ottla.replica.isr import IsrChange
    from ottla.replica.partition import Partition


class Surroundings(Protocol):
    @property
    def broker_epoch(self) -> int: ...

    @property
    def lag_time_max_s(self) -> float:
        """replica.lag.time.max.ms, in seconds."""

    def broker(self, broker_id: int) -> BrokerImage | None: ...

    def alter_isr(self, partition: Partition, change: IsrChange) -> None:
        """Asks the controller; the answer comes by `Partition.isr_changed` or `isr_refused`."""

    async def cut(
        self,
        log: PartitionLog,
        offset: int,
        is_wanted: Callable[[], bool],
        *,
        fully: bool = False,
        before: Before | None = None,
    ) -> bool:
        """As `LogManager.cut`."""

    def make_cut_durable_now(self, log: PartitionLog) -> None: ...

    def log_start_moved(self, partition: Partition) -> None:
        """Of a partition that follows: its leader is to know."""


class NoSurroundings:
    """Of a partition that has no other replica."""

    broker_epoch = -1
    lag_time_max_s = 30.0

    def broker(self, broker_id: int) -> BrokerImage | None:
        return None

    def alter_isr(self, partition: Partition, change: IsrChange) -> None:
        raise AssertionError(f"nobody can be asked to change the in-sync replicas of {partition.key}")

    async def cut(
        self,
        log: PartitionLog,
        offset: int,
        is_wanted: Callable[[], bool],
        *,
        fully: bool = False,
        before: Before | None = None,
    ) -> bool:
        raise AssertionError(f"nobody can cut {log.partition}")

    def make_cut_durable_now(self, log: PartitionLog) -> None:
        raise AssertionError(f"nobody can cut {log.partition}")

    def log_start_moved(self, partition: Partition) -> None:
        pass
