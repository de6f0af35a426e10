"""Which segments of a partition may go from the remote tier: by age, by size, or because they lie before its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.log.epochs import LeaderEpochs
from ottla.tier.remote_log import belongs_to
from ottla.tier.remote_segment import RemoteSegment


class Keep(NamedTuple):
    """retention.ms and retention.bytes; negative for no limit."""

    ms: int
    bytes: int


class Expired(NamedTuple):
    segments: list[RemoteSegment]
    start_offset: int  # of the log, once they are gone


def expired(
    segments: Sequence[RemoteSegment],
    lineage: LeaderEpochs,
    start_offset: int,
    end_offset: int,
    only_local_size: int,
    keep: Keep,
    now_ms: int,
) -> Expired:
    """`segments` are those that can be read, by their start. As in Kafka the first one that stays protects the others.

    What is of another history (an unclean election) stays until the log's start has passed it, or the epochs that it
    is of are before all that the log knows.
    """
    ours = [segment for segment in segments if belongs_to(segment, lineage, end_offset)]
    excess = sum(segment.size for segment in ours) + only_local_size - keep.bytes if keep.bytes >= 0 else -1
    # Where epochs were lost with their file, what is older than those that are left is not of another history.
    earliest = lineage.starts[0].epoch if lineage.covers(start_offset) else None
    going: list[RemoteSegment] = []
    new_start, is_protected = start_offset, False
    for segment in segments:
        is_unknown = earliest is not None and all(epoch < earliest for epoch, _ in segment.epochs)
        if segment.end_offset < start_offset or is_unknown:
            going.append(segment)
            excess -= segment.size
            continue
        if is_protected or not belongs_to(segment, lineage, end_offset):
            continue
        too_old = keep.ms >= 0 and now_ms - segment.max_timestamp > keep.ms
        too_large = excess >= segment.size
        if not (too_old or too_large):
            is_protected = True
            continue
        excess -= segment.size
        going.append(segment)
        new_start = max(new_start, segment.end_offset + 1)
    return Expired(going, new_start)
