"""Offsets by time: the first record at or after a timestamp, and the record with the largest one.

The batch is found on the loop, from indexes and headers in memory (NotInMemory otherwise); the record inside it by
whoever reads the batch, since that may need decompression.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.env.ports import Buffer, File
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.record.batch import TIMESTAMP_TYPE_BIT, parse_header
from ottla.record.reader import read_records


class BatchAt(NamedTuple):
    file: File
    position: int
    size: int
    last_offset: int


class FoundRecord(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def batch_at_or_after(log: PartitionLog, timestamp: int, from_offset: int) -> BatchAt | None:
    """The first batch, not wholly below an offset, that has a record at or after a time."""
    for segment in log.segments[log.segment_for(from_offset) :]:
        if segment.max_timestamp >= timestamp:
            batch = _batch(log, segment, timestamp, from_offset)
            if batch is not None:
                return batch
    return None


def latest_timestamp(log: PartitionLog) -> int:
    return max(segment.max_timestamp for segment in log.segments)


def _batch(log: PartitionLog, segment: Segment, timestamp: int, from_offset: int) -> BatchAt | None:
    place = log.with_sound_indexes(segment, lambda: segment.find_time(timestamp, from_offset))
    if place is None:
        return None
    return BatchAt(segment.file_for(), place.position, place.size, place.last_offset)


def record_at_or_after(batch: Buffer, timestamp: int, start_offset: int) -> FoundRecord | None:
    header = parse_header(batch)
    is_whole = header.record_count == header.last_offset_delta + 1  # compaction may have left some of them, or none
    if is_whole and header.attributes & TIMESTAMP_TYPE_BIT:  # all records have the batch's time
        return FoundRecord(max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch)
    for record in read_records(batch):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return FoundRecord(record.offset, record.timestamp, header.leader_epoch)
    return None
