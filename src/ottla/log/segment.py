"""One segment of a log: the file of batches, its sparse indexes, and how to find a place in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.env.ports import Buffer, Disk, File
from ottla.log.index import MAX_RELATIVE_OFFSET, NotInMemory, OffsetIndex, TimeIndex
from ottla.log.paths import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from ottla.log.txn_index import TxnIndex
from ottla.model.config.topic import LogConfig
from ottla.record.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header

_PLACE: Final = Struct(">qi4xb6xi8xq")  # base offset, length, magic, last offset delta, max timestamp
_SCAN_BYTES: Final = 8 * 1024


class CorruptIndex(Exception):
    """An index entry that does not lead to the batch it names; the segment's indexes must be rebuilt."""


class Place(NamedTuple):
    """Where a batch lies in the file."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log is appended to."""

    def __init__(self, disk: Disk, folder: str, base_offset: int, config: LogConfig, created_ms: int) -> None:
        stem = f"{folder}/{offset_name(base_offset)}"
        self.base_offset = base_offset
        self.path = stem + LOG_SUFFIX
        self.size = 0
        self.created_ms = created_ms
        self.offset_index = OffsetIndex(disk, stem + INDEX_SUFFIX, base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(disk, stem + TIME_INDEX_SUFFIX, base_offset, config.segment_index_bytes)
        self.txn_index = TxnIndex(disk, stem + TXN_INDEX_SUFFIX)
        self.max_timestamp = -1
        self.offset_of_max_timestamp = -1
        self.first_timestamp: int | None = None  # what rolling by time counts from
        self.roll_jitter_ms = 0
        self.indexes_full = False
        self._disk = disk
        self._stem = stem
        self._file: File | None = None
        self._bytes_since_index_entry = 0

    # -- life

    def create(self, *, preallocate: int = 0) -> None:
        self.file_for(create=True).truncate(preallocate)
        for index in (self.offset_index, self.time_index):
            index.entries.create()
            index.entries.release()

    def load(self) -> None:
        """Takes over a segment that was left in order; its largest timestamp is the time index's last entry."""
        self.size = self._disk.file_size(self.path)
        for index in (self.offset_index, self.time_index):
            path = index.entries.path
            index.entries.load(self._disk.file_size(path) if self._disk.exists(path) else 0)

    def load_timestamps(self) -> None:
        last = self.time_index.last()
        if last is not None and last.timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = last
        if self.size and (first := self.header_at(0)) is not None:
            self.first_timestamp = first.max_timestamp

    def may_wait(self, yes: bool) -> None:
        self.offset_index.entries.may_wait = self.time_index.entries.may_wait = yes

    def file_for(self, *, create: bool = False) -> File:
        """The open file; opened when first needed."""
        if self._file is None:
            self._file = self._disk.open(self.path, create=create)
        return self._file

    def release(self) -> None:
        """Called when the segment is no longer written to: indexes on disk are complete, descriptors given back."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.file_for().truncate(self.size)  # what was preallocated and not used
        for index in (self.offset_index, self.time_index):
            index.entries.write_tail()

    def close(self) -> None:
        for index in (self.offset_index, self.time_index):
            index.entries.close()
        self._file = None

    def sync(self) -> None:
        """Blocking, for the executor: all that `write_index_tails` and `append` have handed to the file system."""
        self.file_for().sync()
        self.offset_index.entries.sync()
        self.time_index.entries.sync()
        self.txn_index.sync()

    def write_index_tails(self) -> None:
        self.offset_index.entries.write_tail()
        self.time_index.entries.write_tail()

    def mark_deleted(self) -> list[str]:
        """Renames the files out of the way; readers that hold the open file go on. Gives the paths left to remove."""
        marked = []
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            path = self._stem + suffix
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                marked.append(path + DELETED_SUFFIX)
        self.offset_index.entries.release()
        self.time_index.entries.release()
        return marked

    # -- writing

    def has_room_for(self, last_offset: int) -> bool:
        """Index entries have 31 bits for an offset."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def append(
        self, buffers: Sequence[Buffer], size: int, last_offset: int, max_timestamp: int, index_interval: int
    ) -> None:
        position = self.size
        file = self._file
        if file is None:
            file = self.file_for()
        file.write(buffers, position)
        self.note(position, size, last_offset, max_timestamp, index_interval)

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval: int) -> None:
        """Accounts for a batch that lies in the file: sizes, timestamps and index entries."""
        if position == 0:
            self.first_timestamp = max_timestamp
        self.size = position + size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self._bytes_since_index_entry > index_interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_index_entry = 0
            self.indexes_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry += size

    def cut(self, position: int, next_offset: int) -> None:
        """Everything from a batch boundary on is gone."""
        self.file_for().truncate(position)
        self.size = position
        self.offset_index.truncate_to(next_offset)
        self.time_index.truncate_to(next_offset)
        self.txn_index.truncate_to(next_offset)
        self.max_timestamp = self.offset_of_max_timestamp = -1
        self.load_timestamps()

    def reset_indexes(self) -> None:
        self.offset_index.entries.create()
        self.time_index.entries.create()
        self.offset_index.entries.load(0)
        self.time_index.entries.load(0)
        self.offset_index.entries.truncate(0)
        self.time_index.truncate_to(0)
        self._bytes_since_index_entry = 0

    # -- reading

    def read(self, size: int, position: int) -> bytes | bytearray:
        """Bytes from memory only; raises NotInMemory."""
        size = min(size, self.size - position)
        file = self._file
        if file is None:
            file = self.file_for()
        data = file.pread_nowait(size, position)
        if data is None or len(data) < size:
            raise NotInMemory(file, size, position)
        return data

    def header_at(self, position: int) -> BatchHeader | None:
        """The header at a batch boundary; None at the end of the segment. Blocking read: for loading and rare paths."""
        data = self.file_for().pread(HEADER_SIZE, position)
        return parse_header(data) if len(data) == HEADER_SIZE and position + HEADER_SIZE <= self.size else None

    def find(self, offset: int) -> Place | None:
        """The first batch whose last offset is not below `offset`; None if there is none in this segment."""
        entry = self.offset_index.lookup(offset)
        expected, start = entry if entry is not None else (None, 0)
        for place in self.places(start):
            if expected is not None and place.position == start and place.last_offset != expected:
                raise CorruptIndex(f"{self.offset_index.entries.path}: no batch ends with {expected} at {start}")
            if place.last_offset >= offset:
                return place
        return None

    def find_time(self, timestamp: int, from_offset: int) -> Place | None:
        """The first batch, not wholly below an offset, that has a record at or after a time."""
        start = 0
        before = self.time_index.lookup(timestamp - 1)
        if before is not None:
            place = self.find(before.offset)
            if place is None or place.max_timestamp != before.timestamp:
                raise CorruptIndex(f"{self.time_index.entries.path}: {before} is not what the log has")
            start = place.position
        for place in self.places(start):
            if place.max_timestamp >= timestamp and place.last_offset >= from_offset:
                return place
        return None

    def places(self, position: int) -> Iterator[Place]:
        """Batches from a boundary on; reads headers in chunks; raises NotInMemory."""
        while position + HEADER_SIZE <= self.size:
            chunk = self.read(_SCAN_BYTES, position)
            start, end = position, position + len(chunk)
            while position + _PLACE.size <= end:
                base, length, magic, delta, max_timestamp = _PLACE.unpack_from(chunk, position - start)
                if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC_V2:
                    raise CorruptIndex(f"{self.path}: there is no batch at {position}")
                yield Place(position, length + LOG_OVERHEAD, base, base + delta, max_timestamp)
                position += length + LOG_OVERHEAD
