"""Indexes of a segment, written anew from its batches: after a crash, or when an entry was found to be wrong."""

from __future__ import annotations

from ottla.log.scan import good_batches
from ottla.log.segment import Segment
from ottla.model.config.topic import LogConfig


def rebuild_indexes(segment: Segment, config: LogConfig) -> None:
    """Makes both indexes of a segment anew from its batches; a crash leaves the old ones or the new ones."""
    size = segment.size
    segment.begin_rebuild()
    for batch in good_batches(segment.file_for(), 0, size, segment.base_offset):
        header = batch.header
        segment.note(batch.position, header.size, header.last_offset, header.max_timestamp, config.index_interval_bytes)
    if segment.max_timestamp >= 0:
        segment.time_index.maybe_append(segment.max_timestamp, segment.offset_of_max_timestamp)
    segment.finish_rebuild()
    segment.size = size
