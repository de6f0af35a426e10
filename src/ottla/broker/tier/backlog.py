"""Which segments of a partition are still to be copied to the remote tier."""

from __future__ import annotations

from ottla.log.segment import Segment
from ottla.replica.partition import Partition


def still_to_copy(partition: Partition) -> list[tuple[Segment, int]]:
    """Closed segments below the last stable offset that are not in the tier yet, each with where the next begins. Also
    those that compaction has emptied, before the topic was tiered: readers must find the way over them."""
    log = partition.log
    first = max(log.tiered_to + 1, log.start_offset)
    pairs = zip(log.segments, log.segments[1:], strict=False)
    return [
        (segment, following.base_offset)
        for segment, following in pairs
        if first < following.base_offset <= partition.last_stable_offset
        and (segment.size > 0 or log.epochs.covers(segment.base_offset))
    ]
