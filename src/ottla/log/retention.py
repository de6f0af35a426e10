"""Which of a log's oldest segments may go: by age, by size, or because they lie before the log's start.

It happens in two steps, with the log's new start made durable in between: a loss of power may undo some of the renames
that deletion begins with, and the start then says that what came back does not count.
"""

from __future__ import annotations

import logging
from math import inf
from typing import Final, NamedTuple

from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.model.config.topic import LogConfig

_log = logging.getLogger("ottla.log")
_FAR_AHEAD_MS: Final = 3_600_000  # what brokers take by default: message.timestamp.after.max.ms


class Rest(NamedTuple):
    """As it was when there was nothing to delete: of many logs most are not written to for days."""

    end_offset: int
    start_offset: int
    config: LogConfig
    until_ms: float


def deletable_segments(log: PartitionLog, high_watermark: int, now_ms: int) -> int:
    """How many segments from the oldest on; never beyond the high watermark, never an empty last one."""
    return _look(log, high_watermark, now_ms)[0]


def _look(log: PartitionLog, high_watermark: int, now_ms: int) -> tuple[int, bool]:
    """Also, with a remote tier, whether the segment that is written to is due as well and waits to be copied."""
    config = log.config
    # Without a policy nothing goes but local copies of what is in the remote tier.
    deletes = config.delete or config.copies_to_tier
    retention_ms, retention_bytes = config.kept_locally_ms, config.kept_locally_bytes
    excess = log.size - retention_bytes if deletes and retention_bytes >= 0 else -1
    count = 0
    for number, segment in enumerate(log.segments):
        is_last = number + 1 == len(log.segments)
        following = log.end_offset if is_last else log.segments[number + 1].base_offset
        if following > high_watermark or (is_last and segment.size == 0):
            break
        too_large = excess >= segment.size
        too_old = deletes and retention_ms >= 0 and _age(segment, now_ms) > retention_ms
        before_start = not is_last and following <= log.start_offset
        if not (too_large or too_old or before_start):
            break
        if config.copies_to_tier and not before_start and following - 1 > log.tiered_to:
            return count, is_last
        excess -= segment.size
        count += 1
    return count, False


def _age(segment: Segment, now_ms: int) -> int:
    return now_ms - segment.newest_ms()


def _rests_until(log: PartitionLog) -> float:
    """When the oldest segment gets too old."""
    first, config = log.segments[0], log.config
    if (len(log.segments) == 1 and first.size == 0) or not config.delete or config.retention_ms < 0:
        return inf
    return first.newest_ms() + config.retention_ms + 1


def _tell_of_the_future(log: PartitionLog, now_ms: int) -> None:
    ahead_ms = log.segments[0].newest_ms() - now_ms
    if ahead_ms > _FAR_AHEAD_MS and log.config.delete and log.config.retention_ms >= 0:
        _log.warning(
            "%s: the segment from offset %d on has a record of %.1f h in the future, and stays until that is older than"
            " retention.ms. To be rid of it earlier: ottla topic purge, or retention.bytes.",
            *(log.partition, log.segments[0].base_offset, ahead_ms / 3_600_000),
        )


def is_at_rest(log: PartitionLog, now_ms: int) -> bool:
    """Whether nothing has happened since the last look, and time alone cannot have changed its outcome."""
    segments = log.segments
    if len(segments) == 1 and segments[0].size == 0:
        return True  # nothing is in it
    rest = log.rest
    return (
        rest is not None
        and not log.config.remote_storage_enable  # what is copied meanwhile may go
        and rest.end_offset == log.end_offset
        and rest.start_offset == log.start_offset
        and now_ms < rest.until_ms
        and rest.config is log.config
    )


def give_up_old_segments(log: PartitionLog, high_watermark: int, now_ms: int) -> bool:
    """Advances the log's start past all that may go; true if there is something to delete once that is durable."""
    count = deletable_segments(log, high_watermark, now_ms)
    if log.config.copies_to_tier and _look(log, high_watermark, now_ms)[1]:
        log.roll(now_ms)  # so that it can be copied
    if count == 0:
        if log.rest is None or log.rest.start_offset != log.start_offset:
            _tell_of_the_future(log, now_ms)
        if high_watermark >= log.end_offset:
            log.rest = Rest(log.end_offset, log.start_offset, log.config, _rests_until(log))
        return False
    if count == len(log.segments):
        log.roll(now_ms)  # a log always has a segment to write to
    if not log.config.copies_to_tier:
        log.advance_start(log.segments[count].base_offset)
    return True


def delete_oldest(log: PartitionLog) -> list[str]:
    """As below, but of a segment that is in the remote tier, where the log's start stays as it is.

    Only one, which is to be durable before the next: a loss of power that undid some of several renames would leave a
    log with a hole.
    """
    paths = [path for segment in log.take_first_segments(1) for path in segment.mark_deleted()]
    return paths + log.take_snapshots_before(log.segments[0].base_offset)


def delete_given_up(log: PartitionLog) -> list[str]:
    """Takes segments before the start out of the log and marks their files.

    Gives the paths to remove after file.delete.delay.ms.
    """
    count = 0
    while count + 1 < len(log.segments) and log.segments[count + 1].base_offset <= log.start_offset:
        count += 1
    if count == 0:
        return []
    paths = [path for segment in log.take_first_segments(count) for path in segment.mark_deleted()]
    return paths + log.take_snapshots_before(log.segments[0].base_offset)
