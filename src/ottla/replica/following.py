"""The follower's side of a partition: what comes from the leader is appended as it is, what the leader does not have is
cut off."""

from __future__ import annotations

from typing import NamedTuple

from ottla.env.ports import Buffer
from ottla.log.epochs import EpochEnd
from ottla.log.fetched_batches import UnexpectedOffset, fetched_batches
from ottla.log.partition_log import PartitionLog
from ottla.model.names import NO_EPOCH
from ottla.record.batch import parse_header
from ottla.replica.partition import Partition


class FromLeader(NamedTuple):
    """What an answer to a fetch says of one partition."""

    high_watermark: int
    start_offset: int
    records: Buffer | None


class StartsEarlier(Exception):
    """The leader's log begins in the middle of a batch, and ours is to begin with the whole of it."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(f"the first batch begins at offset {base_offset}")
        self.base_offset = base_offset


def take(partition: Partition, fetched: FromLeader, now_ms: int) -> int:
    """Appends what was fetched from the end of the log on; gives the bytes. Raises what fetched_batches does, OSError,
    and StartsEarlier."""
    log, size = partition.log, 0
    if fetched.records:
        try:
            headers = fetched_batches(fetched.records, log.end_offset, partition.leader_epoch)
        except UnexpectedOffset:
            first = parse_header(fetched.records)
            if log.end_offset == log.start_offset and first.base_offset < log.end_offset <= first.last_offset:
                raise StartsEarlier(first.base_offset) from None
            raise
        if headers:
            log.append_as_is(fetched.records, headers, now_ms)
            size = sum([header.size for header in headers])
    partition.followed_to(fetched.high_watermark)
    if fetched.start_offset > log.start_offset:
        log.advance_start(min(fetched.start_offset, partition.high_watermark))
    return size


def cut_for(log: PartitionLog, diverging: EpochEnd) -> int:
    """Where to cut a log whose last epoch ends earlier with the leader, or is not known to it (KIP-101, KIP-279).

    `diverging` is the leader's epoch that comes closest, and its end. If that epoch is not ours, what is left may part
    from the leader's log even earlier: the next fetch will tell.
    """
    ours = log.epochs.end_of(diverging.epoch, log.end_offset)
    if ours.epoch == NO_EPOCH:
        return min(diverging.end_offset, log.end_offset)
    if ours.epoch != diverging.epoch:
        return min(ours.end_offset, log.end_offset)
    return min(ours.end_offset, diverging.end_offset, log.end_offset)
