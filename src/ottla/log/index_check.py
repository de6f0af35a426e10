"""A glance at a segment's indexes: what can be seen to be wrong with them without reading the whole segment."""

from __future__ import annotations

from ottla.env.ports import Disk
from ottla.log.segment import Segment
from ottla.record.batch import MAGIC_V2


def index_problem(disk: Disk, segment: Segment, *, sizes_only: bool = False) -> str | None:
    """What is wrong, or None. After a crash the ends of the files are not worth a look, only their sizes."""
    for index in (segment.offset_index, segment.time_index):
        path = index.entries.path
        if not disk.exists(path):
            return f"{path} is missing"
        if disk.file_size(path) % index.entries.entry_size:
            return f"{path} does not hold whole entries"
    return None if sizes_only else _offset_index_problem(segment) or _time_index_problem(segment)


def _offset_index_problem(segment: Segment) -> str | None:
    index = segment.offset_index
    if not index.entries.count:
        return None
    offset, position = index.entry(index.entries.count - 1)
    header = segment.header_at(position) if 0 < position < segment.size else None
    if header is None or header.last_offset != offset:
        return f"{index.entries.path} ends with an entry that leads to no batch"
    return None


def _time_index_problem(segment: Segment) -> str | None:
    """The last entry of a finished segment has its largest timestamp, which retention and searches rely on."""
    index = segment.time_index
    path = index.entries.path
    last = index.last()
    if last is not None:
        count = index.entries.count
        before = index.entry(count - 2) if count > 1 else None
        if last.offset < segment.base_offset or (before is not None and before.timestamp >= last.timestamp):
            return f"{path} ends with an entry that is out of order"
    largest = -1 if last is None else last.timestamp
    position = last_indexed_position(segment)
    while (header := segment.header_at(position)) is not None:
        if header.magic != MAGIC_V2 or header.length <= 0:
            break  # preallocated, or damage in the log, which others find
        if header.max_timestamp > largest:
            return f"{path} does not know of the timestamp of offset {header.last_offset}"
        position += header.size
    if last is not None and not is_so(segment, last.timestamp, last.offset):
        return f"{path} ends with an entry that the log does not have"
    return None


def is_so(segment: Segment, timestamp: int, offset: int) -> bool:
    """Whether the batch with an offset has a largest timestamp."""
    entry = segment.offset_index.lookup(offset)
    position = 0 if entry is None else entry[1]
    while (header := segment.header_at(position)) is not None and header.length > 0:
        if header.last_offset >= offset:
            return header.max_timestamp == timestamp
        position += header.size
    return False


def last_indexed_position(segment: Segment) -> int:
    count = segment.offset_index.entries.count
    return segment.offset_index.entry(count - 1)[1] if count else 0
