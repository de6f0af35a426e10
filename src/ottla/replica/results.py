"""What a partition is told and what it says: plain values."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.log.epochs import EpochEnd
from ottla.log.reading import LogRead
from ottla.log.txn_index import AbortedTxn
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_OFFSET, NO_TIMESTAMP

if TYPE_CHECKING:
    from ottla.replica.partition import Partition

CONSUMER: Final = -1  # the replica id of those who are none


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Appended(NamedTuple):
    """What became of a batch. Offsets are -1 if it was not appended."""

    code: ErrorCode
    base_offset: int = NO_OFFSET
    next_offset: int = NO_OFFSET
    log_append_time: int = NO_TIMESTAMP
    start_offset: int = NO_OFFSET
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


class Fetched(NamedTuple):
    code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    start_offset: int = NO_OFFSET
    data: LogRead | None = None
    aborted: list[AbortedTxn] | None = None
    diverging: EpochEnd | None = None
    preferred_replica: int = -1  # who a consumer had better ask (KIP-392)


class InTier(Exception):
    """What a consumer wants is in the remote tier. All else that there is to say is known."""

    def __init__(self, fetched: Fetched) -> None:
        super().__init__()
        self.fetched = fetched


class Leadership(NamedTuple):
    """What the metadata says about a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


class PartitionListener(Protocol):
    """Told in order, on the loop. For coordinators, fetchers and waiting requests."""

    def high_watermark_moved(self, partition: Partition, offset: int) -> None: ...
    def leadership_changed(self, partition: Partition, led_before: bool) -> None: ...


def epoch_error(theirs: int, ours: int) -> ErrorCode:
    return ErrorCode.fenced_leader_epoch if theirs < ours else ErrorCode.unknown_leader_epoch
