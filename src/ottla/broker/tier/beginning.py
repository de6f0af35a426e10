"""Where a log begins whose first segments have expired in the remote tier.

The leader who deletes them moves the log's start first, but one who follows him may not have heard of that yet: to him
the log begins with offsets that nobody has any more, and whoever reads from there would be sent there again and again.
"""

from __future__ import annotations

from ottla.log.partition_log import PartitionLog
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Partition
from ottla.tier.remote_log import RemoteLog


def is_told_of(log: PartitionLog, remote: RemoteLog, offset: int) -> bool:
    """Whether what is known of the tier reaches an offset: if not, it may well be there. Copies are told in order."""
    return remote.copied_to(log.epochs, log.end_offset) >= offset


def begin_where_the_tier_does(partition: Partition, remote: RemoteLog) -> ErrorCode | None:
    """Of a log that is led here; an error if its disk has failed. What is gone from the tier is gone."""
    log = partition.log
    start, local = log.start_offset, log.local_start_offset
    if start >= local or not is_told_of(log, remote, local - 1):
        return None
    if log.epochs.covers(start):
        left = remote.first_from(log.epochs, start)
    else:  # of which history the start was is not known: what anybody has left may be ours
        left = min((each.start_offset for each in remote.readable() if each.end_offset >= start), default=None)
    first = min(local if left is None else left, local, partition.high_watermark)
    return partition.advance_start(first) if first > start else None
