"""How much of a log is dirty, and how far it may be cleaned: Kafka's rules, without a disk.

Never into the active segment, never beyond the last stable offset, and no record that is younger than
min.compaction.lag.ms. A log is due when more than min.cleanable.dirty.ratio of what may be cleaned is dirty, or when
something dirty is older than max.compaction.lag.ms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.model.config.topic import LogConfig

_FOREVER: Final = 0x7FFFFFFFFFFFFFFF


class Plan(NamedTuple):
    first_dirty: int
    bound: int
    """The first segment that is not cleaned begins there."""
    clean_bytes: int
    dirty_bytes: int
    overdue_ms: int
    """By how much something dirty is older than max.compaction.lag.ms allows."""
    corrects_checkpoint: bool
    """The offset up to which it was said to be clean cannot be."""

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: LogConfig) -> bool:
        return (self.overdue_ms > 0 and self.dirty_bytes > 0) or self.ratio > config.min_cleanable_dirty_ratio


def plan(log: PartitionLog, cleaned_offset: int | None, stable_offset: int, now_ms: int) -> Plan:
    first_dirty = log.start_offset if cleaned_offset is None else cleaned_offset
    corrects = not log.start_offset <= first_dirty <= log.end_offset
    if corrects:
        first_dirty = log.start_offset
    config, segments = log.config, log.segments
    dirty = segments[_holding(segments, first_dirty) : -1]
    limit = min(stable_offset, log.active.base_offset)
    if config.min_compaction_lag_ms > 0:
        young = (s.base_offset for s in dirty if s.newest_ms() > now_ms - config.min_compaction_lag_ms)
        limit = min(limit, next(young, limit))
    first_kept = min(_holding(segments, max(first_dirty, limit)), len(segments) - 1)
    bound = segments[first_kept].base_offset
    first = _holding(segments, min(first_dirty, bound))
    return Plan(
        first_dirty,
        bound,
        sum(segment.size for segment in segments if segment.base_offset < first_dirty),
        sum(segment.size for segment in segments[first:first_kept]),
        _overdue(dirty, config, now_ms),
        corrects,
    )


def _holding(segments: Sequence[Segment], offset: int) -> int:
    return max(bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1, 0)


def _overdue(dirty: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    oldest = min((first for segment in dirty if (first := segment.first_timestamp or 0) > 0), default=_FOREVER)
    return max(now_ms - config.max_compaction_lag_ms - oldest, 0)


def must_roll(log: PartitionLog, stable_offset: int, now_ms: int) -> bool:
    """Whether a log that nobody writes to has records in its active segment that must be compacted by now.

    Kafka rolls with the next append only, and lets them wait for one.
    """
    lag, active = log.config.max_compaction_lag_ms, log.active
    return (
        lag < _FOREVER
        and active.size > 0
        and stable_offset >= log.end_offset
        and active.first_timestamp is not None
        and 0 <= active.first_timestamp < now_ms - lag
    )
