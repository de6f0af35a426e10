"""A segment in the remote tier, as Kafka describes it (KIP-405)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from ottla.log.epochs import EpochStart
from ottla.model.names import TopicPartition


class SegmentState(IntEnum):
    """The numbers are those of RemoteLogSegmentState."""

    COPY_STARTED = 0
    COPY_FINISHED = 1
    DELETE_STARTED = 2
    DELETE_FINISHED = 3


class DeleteState(IntEnum):
    """Of all that a partition has there: RemotePartitionDeleteState."""

    MARKED = 0
    STARTED = 1
    FINISHED = 2


class RemotePartition(NamedTuple):
    topic: str
    topic_id: UUID
    partition: int

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class RemoteSegment(NamedTuple):
    of: RemotePartition
    id: UUID  # a new one for every attempt to copy
    start_offset: int
    end_offset: int  # of its last record
    broker_id: int
    max_timestamp: int
    event_ms: int
    epochs: tuple[EpochStart, ...]
    size: int
    state: SegmentState
    custom: bytes | None = None
    has_no_aborted: bool = False  # transactions, so no index of them: Kafka's TxnIndexEmpty. False: not known

    def last_offset_of(self, number: int) -> int:
        """The last offset of the epoch that has this place among its epochs."""
        return self.epochs[number + 1].start_offset - 1 if number + 1 < len(self.epochs) else self.end_offset


class SegmentUpdate(NamedTuple):
    of: RemotePartition
    id: UUID
    broker_id: int
    event_ms: int
    state: SegmentState
    custom: bytes | None = None


class PartitionDelete(NamedTuple):
    of: RemotePartition
    broker_id: int
    event_ms: int
    state: DeleteState
