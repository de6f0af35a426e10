"""One segment of a log: the file of batches, its sparse indexes, and how to find a place in them."""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from errno import EBADF
from struct import Struct
from typing import Final, NamedTuple

from ottla.env.ports import Buffer, Disk, Env, File
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

SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_PLACE: Final = Struct(">qi4xb6xi8xq")  # base offset, length, magic, last offset delta, max timestamp
_SCAN_BYTES: Final = 8 * 1024
_TAIL_BYTES: Final = 1024
_MOST_BOUNDARIES: Final = 8


class CorruptIndex(Exception):
    """An index entry that does not lead to the batch it names; the segment's indexes must be rebuilt."""


class DamagedLog(Exception):
    """Bytes in the middle of a segment that are no batch, although they were in order once."""


class Place(NamedTuple):
    """Where a batch lies in the file."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Segment:
    """Batches from `base_offset` on. Only the last segment of a log is appended to."""

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, config: LogConfig, created_ms: int, suffix: str = ""
    ) -> None:
        """`suffix` ends the names of its files while a cleaned segment is on its way to its place."""
        stem = f"{folder}/{offset_name(base_offset)}"
        self.base_offset = base_offset
        self.path = stem + LOG_SUFFIX + suffix
        self.size = 0
        self.created_ms = created_ms
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(disk, stem + INDEX_SUFFIX + suffix, base_offset, index_bytes)
        self.time_index = TimeIndex(disk, stem + TIME_INDEX_SUFFIX + suffix, base_offset, index_bytes)
        self.txn_index = TxnIndex(disk, stem + TXN_INDEX_SUFFIX + suffix)
        self.max_timestamp = -1
        self.offset_of_max_timestamp = -1
        self.first_timestamp: int | None = None  # what rolling by time counts from
        self.roll_jitter_ms = 0
        self.indexes_full = False
        self._boundaries: dict[int, int] = {}  # where readers came to the end: they go on there, at these positions
        self.tail = b""  # what was appended last, if it is small: whoever waits for it need not read the file
        self.tail_position = 0
        self._disk = disk
        self._stem = stem
        self._suffix = suffix
        self._file: File | None = None
        self._bytes_since_index_entry = 0
        self._gone = False

    # -- life

    def create(self, *, preallocate: int = 0) -> None:
        file = self.file_for(create=True)
        if preallocate or file.size():  # a crash may have left one of that name
            file.truncate(preallocate)
        for index in (self.offset_index, self.time_index):
            index.entries.create()
            index.entries.release()

    def load(self) -> None:
        """Takes over the sizes that lie on disk."""
        self.size = self._disk.file_size(self.path)
        for index in (self.offset_index, self.time_index):
            path = index.entries.path
            size = self._disk.file_size(path) if self._disk.exists(path) else 0
            if isinstance(index, TimeIndex):
                index.load(size)
            else:
                index.entries.load(size)
        self._note_full_indexes()

    def load_timestamps(self) -> None:
        """Of a segment that was left in order: its largest timestamp is the time index's last entry."""
        last = self.time_index.last()
        if last is not None and last.timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = last
        if self.size and (first := self.header_at(0)) is not None:
            self.first_timestamp = first.max_timestamp

    def _note_full_indexes(self) -> None:
        self.indexes_full = self.offset_index.is_full or self.time_index.is_full

    def may_wait(self, yes: bool) -> None:
        self.offset_index.entries.may_wait = self.time_index.entries.may_wait = yes

    def file_for(self, *, create: bool = False) -> File:
        """The open file; opened when first needed."""
        if self._file is None:
            if self._gone:
                # Its folder may have been renamed, and another topic's be there under the old name.
                raise OSError(EBADF, "this segment was deleted or its log closed", self.path)
            self._file = self._disk.open(self.path, create=create)
        return self._file

    def last_modified_ms(self) -> int:
        return self._disk.modified_ms(self.path)

    def newest_ms(self) -> int:
        """Its largest timestamp; if its records have none, when it was last written to."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.last_modified_ms()

    def finish(self) -> None:
        """Called when the segment is no longer written to: its file ends with its batches, its indexes are complete."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.file_for().truncate(self.size)  # what was preallocated and not used
        self.tail = b""
        self.write_index_tails()

    def release(self) -> None:
        """Gives descriptors back; what is needed again is opened again."""
        self._file = None
        self.release_indexes()

    def release_indexes(self) -> None:
        self.offset_index.entries.release()
        self.time_index.entries.release()

    def close(self) -> None:
        self._gone = True
        self._file = None
        self.offset_index.entries.abandon()
        self.time_index.entries.abandon()

    def sync(self) -> None:
        """Blocking, for the executor: all that `write_index_tails` and `append` have handed to the file system."""
        try:
            self.file_for().sync()
            self.offset_index.entries.sync()
            self.time_index.entries.sync()
            self.txn_index.sync()
        except OSError:
            if not self._gone:  # deleted under our feet, so that nobody needs it
                raise

    def write_index_tails(self) -> None:
        self.offset_index.entries.write_tail()
        self.time_index.entries.write_tail()

    def mark_deleted(self) -> list[str]:
        """Renames the files out of the way; readers that hold the open file go on. Gives the paths left to remove."""
        self._gone = True
        self.offset_index.entries.abandon()
        self.time_index.entries.abandon()
        marked = []
        for suffix in SEGMENT_SUFFIXES:
            path = self._stem + suffix + self._suffix
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                marked.append(path + DELETED_SUFFIX)
        return marked

    def take_place(self) -> None:
        """The files of a cleaned segment get their final names."""
        old, self._suffix = self._suffix, ""
        for suffix in SEGMENT_SUFFIXES:
            if self._disk.exists(self._stem + suffix + old):
                self._disk.rename(self._stem + suffix + old, self._stem + suffix)
        self.path = self._stem + LOG_SUFFIX
        self.offset_index.entries.path = self._stem + INDEX_SUFFIX
        self.time_index.entries.path = self._stem + TIME_INDEX_SUFFIX
        self.txn_index.path = self._stem + TXN_INDEX_SUFFIX

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
        if len(buffers[-1]) <= _TAIL_BYTES:
            self.tail, self.tail_position = b"".join(buffers), position
        elif self.tail:
            self.tail = b""
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
            self._note_full_indexes()
        self._bytes_since_index_entry += size

    def truncate_to(self, offset: int) -> int:
        """Drops the batch that an offset lies in and all after it; gives where the segment ends then. May wait.

        The file first: after a crash entries that lead beyond its end are seen as such.
        """
        self.may_wait(True)
        entry = self.offset_index.lookup(offset - 1)
        if entry is not None and not self._leads_to_a_batch(*entry):
            entry = None
        position, end = (entry[1] if entry is not None else 0), self.base_offset
        while (header := self.header_at(position)) is not None and header.last_offset < offset:
            position, end = position + header.size, header.next_offset
        self.file_for().truncate(position)
        self.size = position
        kept = self.offset_index.truncate_to(position)
        newest = self.time_index.truncate_to(end)
        self.txn_index.keep_sound(self.base_offset, end)
        self.max_timestamp, self.offset_of_max_timestamp = newest if newest is not None else (-1, -1)
        if position == 0:
            self.first_timestamp = None
        self._boundaries.clear()
        self.tail = b""
        self._account_from(kept[1] if kept is not None else 0)
        self._note_full_indexes()
        self.may_wait(False)
        return end

    def _leads_to_a_batch(self, last_offset: int, position: int) -> bool:
        header = self.header_at(position) if 0 < position < self.size else None
        return header is not None and header.magic == MAGIC_V2 and header.last_offset == last_offset

    def _account_from(self, position: int) -> None:
        """What `note` knew of the batches after the last index entry."""
        self._bytes_since_index_entry = 0
        while (header := self.header_at(position)) is not None:
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset
            self._bytes_since_index_entry += header.size
            position += header.size

    def expect_index_entry(self, index_interval: int) -> None:
        """The next batch that is noted gets its entries: it had them before they were dropped."""
        self._bytes_since_index_entry = index_interval + 1

    def begin_rebuild(self) -> None:
        """Indexes and timestamps are about to be made anew, by noting every batch."""
        self.offset_index.entries.begin_rebuild()
        self.time_index.begin_rebuild()
        self.max_timestamp = self.offset_of_max_timestamp = -1
        self.first_timestamp = None
        self.indexes_full = False
        self._bytes_since_index_entry = 0

    def without_indexes(self, config: LogConfig) -> Segment:
        """The same segment, about to be read anew."""
        folder = os.path.dirname(self.path)
        return Segment(self._disk, folder, self.base_offset, config, self.created_ms, self._suffix)

    def take_indexes(self, fresh: Segment) -> None:
        fresh.may_wait(self.offset_index.entries.may_wait)
        self.offset_index, self.time_index = fresh.offset_index, fresh.time_index
        self.indexes_full = fresh.indexes_full
        self._bytes_since_index_entry = fresh._bytes_since_index_entry
        if fresh.max_timestamp > self.max_timestamp:
            self.max_timestamp, self.offset_of_max_timestamp = fresh.max_timestamp, fresh.offset_of_max_timestamp
        if self.first_timestamp is None:
            self.first_timestamp = fresh.first_timestamp

    def finish_rebuild(self, recovery_point: int = 0) -> None:
        """The offset index last: by an entry of it that lies before the recovery point the others are trusted too."""
        entries = self.offset_index.entries
        durably = entries.count > 0 and self.offset_index.entry(0)[0] < recovery_point
        if durably:
            self.txn_index.sync()  # its name becomes durable with that of the time index
        self.time_index.entries.finish_rebuild(durably=durably)
        entries.finish_rebuild(durably=durably)

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
        boundary = self._boundaries.get(offset)
        if boundary is not None:
            return self._place_at(boundary)
        entry = self.offset_index.lookup(offset)
        for place in self.places(0) if entry is None else self._places_from(*entry):
            if place.last_offset >= offset:
                return place
        return None

    def boundary(self, offset: int) -> int | None:
        """Where a batch begins with this offset, or will begin; None if that is not known without looking."""
        return self._boundaries.get(offset)

    def read_to_end(self, end_offset: int) -> None:
        """Whoever reads on from the end finds his place at once; so do others who are not far behind."""
        boundaries = self._boundaries
        if end_offset not in boundaries:
            if len(boundaries) >= _MOST_BOUNDARIES:
                del boundaries[next(iter(boundaries))]
            boundaries[end_offset] = self.size

    def _place_at(self, position: int) -> Place | None:
        if position + HEADER_SIZE > self.size:
            return None
        base, length, _, delta, max_timestamp = _PLACE.unpack_from(self.read(HEADER_SIZE, position))
        return Place(position, length + LOG_OVERHEAD, base, base + delta, max_timestamp)

    def _places_from(self, last_offset: int, position: int) -> Iterator[Place]:
        """Batches from an index entry on, which must lead to the batch that it names."""
        entries = self.offset_index.entries
        if not 0 < position <= self.size - HEADER_SIZE:  # the first batch of a segment has no entry
            raise CorruptIndex(f"{entries.path}: position {position} for offset {last_offset} is not in the log")
        chunk = self.read(_SCAN_BYTES, position)
        base, length, magic, delta, _ = _PLACE.unpack_from(chunk)
        if magic != MAGIC_V2 or length < HEADER_SIZE - LOG_OVERHEAD or base + delta != last_offset:
            raise CorruptIndex(f"{entries.path}: no batch ends with offset {last_offset} at position {position}")
        return self.places(position, chunk)

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

    def places(self, position: int, chunk: bytes | bytearray = b"") -> Iterator[Place]:
        """Batches from a boundary on; reads headers in chunks (the first may be at hand); raises NotInMemory."""
        while position + HEADER_SIZE <= self.size:
            chunk = chunk or self.read(_SCAN_BYTES, position)
            start, end = position, position + len(chunk)
            while position + _PLACE.size <= end:
                base, length, magic, delta, max_timestamp = _PLACE.unpack_from(chunk, position - start)
                if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC_V2:
                    raise DamagedLog(f"{self.path}: there is no batch at position {position}")
                yield Place(position, length + LOG_OVERHEAD, base, base + delta, max_timestamp)
                position += length + LOG_OVERHEAD
            chunk = b""


def new_segment(env: Env, folder: str, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
    segment = Segment(env.disk, folder, base_offset, config, now_ms)
    segment.create(preallocate=config.segment_bytes if config.preallocate else 0)
    segment.roll_jitter_ms = roll_jitter(env, config)
    return segment


def roll_jitter(env: Env, config: LogConfig) -> int:
    jitter = min(config.segment_jitter_ms, config.max_segment_ms)
    return env.random.below(jitter) if jitter > 0 else 0
