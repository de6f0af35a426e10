"""Cutting a log at its end: what a follower does where its history and the leader's part.

Files change at once, as readers see them; nothing is durable before the next flush. A crash in the middle leaves a log
that ends somewhere between the cut and its old end. After a loss of power that is so only if no checkpoint trusts what
was cut, and what is appended afterwards must wait until the cut itself is durable, or both histories could be mixed:
`LogManager.cut` sees to that.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.env.ports import Env
from ottla.log.epochs import EpochStart
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_loading import ProducerLoader
from ottla.log.producers import ProducerEntry, Producers
from ottla.log.segment import new_segment

_log = logging.getLogger("ottla.log")


def truncate_to(env: Env, log: PartitionLog, offset: int) -> list[str]:
    """Drops all records from an offset on, with the whole batch that it lies in; gives the paths to remove later."""
    if offset >= log.end_offset:
        log.doubt_from(None)  # or no flush would ever be believed again
        log.forget_epochs_from(offset)  # of an epoch in which nothing was appended, and that the leader may not know
        return []
    if offset < log.segments[0].base_offset:
        return truncate_fully_and_start_at(env, log, offset)
    before = log.end_offset
    try:
        number = log.segment_for(offset)
        paths = log.take_last_segments(number + 1)
        end_offset = log.active.truncate_to(offset)
        if end_offset < log.start_offset:  # in the middle of a batch, of which the log's start had left the end
            log.start_offset = end_offset
        log.cut_at(end_offset, _producers(env, log, end_offset))
    except OSError as error:
        log.fail(error)
        raise
    _log.info("%s is cut at offset %d, it ended at %d", log.partition, end_offset, before)
    return paths


class Before(NamedTuple):
    """Of a log that goes on after a part which is in the remote tier only: what that part would have told it."""

    start_offset: int
    epochs: list[EpochStart]
    producers: list[ProducerEntry]


def truncate_fully_and_start_at(env: Env, log: PartitionLog, offset: int, before: Before | None = None) -> list[str]:
    """Drops all there is and goes on at an offset, higher or lower; gives the paths to remove later."""
    ended_at = log.end_offset
    try:
        paths = log.take_last_segments(0)
        log.start_anew(new_segment(env, log.folder, offset, log.config, env.clock.now_ms()))
        producers = Producers(str(log.partition))
        producers.clear(offset)
        ProducerLoader(env.disk, log.folder, str(log.partition)).remove_beyond(-1)
        log.epochs.starts.clear()
        if before is not None:
            log.start_offset = min(before.start_offset, offset)
            log.epochs.starts += before.epochs
            producers.load(before.producers, offset)
        log.cut_at(offset, producers)
        if before is not None:
            log.keep_producers()
        log.flushed_offset = offset
    except OSError as error:
        log.fail(error)
        raise
    _log.info("%s starts anew at offset %d, it ended at %d", log.partition, offset, ended_at)
    return paths


def _producers(env: Env, log: PartitionLog, end_offset: int) -> Producers:
    loader = ProducerLoader(env.disk, log.folder, str(log.partition))
    loader.remove_beyond(end_offset)
    if log.producers.take_back(end_offset):
        return log.producers
    for segment in log.segments:
        segment.may_wait(True)
    loader.load(log.segments, end_offset)
    for segment in log.segments:
        segment.may_wait(False)
    for path in loader.written:
        log.sync_with_next_flush(path)
    return loader.state
