"""What one partition of `__consumer_offsets` holds: committed offsets and groups, each with a home of its own."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from ottla.coordinator.machine import StoredRecord
from ottla.coordinator.shard import Shard
from ottla.env.ports import Clock
from ottla.model.config import BrokerConfig

_TYPE: Final = Struct(">h")


class GroupMachine:
    """Sends each record to the part that it belongs to; parts know nothing of the log."""

    def __init__(self, shard: Shard[GroupMachine], clock: Clock, config: Callable[[], BrokerConfig]) -> None:
        self.shard = shard
        self.clock = clock
        self.config = config

    def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
        """Records of kinds that are not known here stay in the log for those who know them."""

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """Commits of offsets within a transaction take effect with its end."""

    def started(self) -> None: ...
    def stopped(self) -> None: ...
