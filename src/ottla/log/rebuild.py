"""Indexes of a segment, written anew from its batches: after a crash, or when an entry was found to be wrong."""

from __future__ import annotations

from ottla.log.scan import good_batches
from ottla.log.segment import Segment
from ottla.model.config.topic import LogConfig


def rebuild_indexes(segment: Segment, config: LogConfig) -> None:
    """Makes both indexes of a segment anew from its batches; a crash or an error leaves the old ones."""
    fresh = segment.without_indexes(config)
    fresh.begin_rebuild()
    for batch in good_batches(segment.file_for(), 0, segment.size, segment.base_offset):
        header = batch.header
        fresh.note(batch.position, header.size, header.last_offset, header.max_timestamp, config.index_interval_bytes)
    if fresh.max_timestamp >= 0:
        fresh.time_index.maybe_append(fresh.max_timestamp, fresh.offset_of_max_timestamp)
    fresh.finish_rebuild()
    segment.take_indexes(fresh)
