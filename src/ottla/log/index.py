"""The sparse indexes of a segment, in Kafka's format: offset to position, and time to offset.

Entries are appended to a small tail in memory and reach the file a few kilobytes at a time: after a crash whatever lies
beyond the recovery point is rebuilt anyway, so an entry that is lost costs nothing. Files are opened when first needed,
since most partitions are quiet most of the time.
"""

from __future__ import annotations

from errno import EBADF
from struct import Struct
from typing import Final, NamedTuple

from ottla.env.files import replace_file, write_atomically
from ottla.env.ports import Disk, File

_TAIL_BYTES: Final = 8 * 1024
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF


class NotInMemory(Exception):
    """A read that would have waited for the disk. Read that range in the executor, then try again."""

    def __init__(self, file: File, size: int, position: int) -> None:
        super().__init__(f"{file.path}: {size} bytes at {position} are not in memory")
        self.file = file
        self.size = size
        self.position = position


class EntryFile:
    """A file of fixed-size entries that only grows at the end."""

    def __init__(self, disk: Disk, path: str, entry_size: int, max_bytes: int) -> None:
        self.path = path
        self.entry_size = entry_size
        self.max_entries = max_bytes // entry_size
        self._disk = disk
        self._file: File | None = None
        self._in_file = 0
        self._tail = bytearray()
        self._unsynced = False
        self._being_rebuilt = False
        self._closed = False
        self.may_wait = False  # while a log is opened nobody else is served, and reads may wait for the disk

    def create(self) -> None:
        file = self._opened(create=True)
        if file.size():
            file.truncate(0)
        self._in_file = 0
        self._tail.clear()
        self._unsynced = True

    def load(self, size: int) -> None:
        """Takes over what lies on disk; a last entry that was cut short is not counted."""
        self._in_file = size // self.entry_size

    def _opened(self, *, create: bool = False) -> File:
        if self._file is None:
            if self._closed:
                # Its folder may have been renamed, and another topic's be there under the old name.
                raise OSError(EBADF, "the log of this index is closed", self.path)
            self._file = self._disk.open(self.path, create=create)
        return self._file

    @property
    def count(self) -> int:
        return self._in_file + len(self._tail) // self.entry_size

    def append(self, entry: bytes) -> None:
        self._tail += entry
        if len(self._tail) >= _TAIL_BYTES and not self._being_rebuilt:
            self.write_tail()

    def raw(self, n: int) -> bytes | bytearray:
        """The bytes of entry n; raises NotInMemory."""
        if n >= self._in_file:
            start = (n - self._in_file) * self.entry_size
            return bytes(self._tail[start : start + self.entry_size])
        file = self._opened()
        read = file.pread if self.may_wait else file.pread_nowait
        data = read(self.entry_size, n * self.entry_size)
        if data is None or len(data) < self.entry_size:
            raise NotInMemory(file, self.entry_size, n * self.entry_size)
        return data

    def in_file(self) -> bytes:
        """All entries that are in the file, by a blocking read."""
        return self._opened().pread(self._in_file * self.entry_size, 0) if self._in_file else b""

    def truncate(self, count: int) -> None:
        if count >= self._in_file:
            del self._tail[(count - self._in_file) * self.entry_size :]
            return
        self._tail.clear()
        self._in_file = count
        self._opened(create=True).truncate(count * self.entry_size)
        self._unsynced = True

    def write_tail(self) -> None:
        if self._tail:
            self._opened(create=True).write((bytes(self._tail),), self._in_file * self.entry_size)
            self._in_file += len(self._tail) // self.entry_size
            self._tail.clear()
            self._unsynced = True

    def begin_rebuild(self) -> None:
        """From here on entries stay in memory, until `finish_rebuild`: the file is replaced whole or not at all."""
        self._being_rebuilt = True
        self._in_file = 0
        self._tail.clear()

    def finish_rebuild(self, *, durably: bool = False) -> None:
        if self._closed:
            raise OSError(EBADF, "the log of this index is closed", self.path)
        (write_atomically if durably else replace_file)(self._disk, self.path, bytes(self._tail))
        self._in_file = len(self._tail) // self.entry_size
        self._tail.clear()
        self._being_rebuilt = False
        self._unsynced = True
        self._file = None

    def sync(self) -> None:
        """Blocking. Only bytes that `write_tail` has handed over."""
        if self._unsynced:
            self._unsynced = False  # before the sync: what is written meanwhile counts for the next one
            file = self._file
            (file if file is not None else self._opened()).sync()

    def release(self) -> None:
        """Forgets the open file, which closes once nobody uses it; the next access opens it again."""
        self._file = None

    def abandon(self) -> None:
        """From here on the path belongs to somebody else."""
        self._closed = True
        self._file = None


class OffsetIndex:
    """Entries (last offset of a batch relative to the segment's base, position where that batch starts)."""

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self.entries = EntryFile(disk, path, _OFFSET_ENTRY.size, max_bytes)
        self.base_offset = base_offset

    @property
    def is_full(self) -> bool:
        return self.entries.count >= self.entries.max_entries

    def entry(self, n: int) -> tuple[int, int]:
        relative, position = _OFFSET_ENTRY.unpack(self.entries.raw(n))
        return self.base_offset + relative, position

    def append(self, last_offset: int, position: int) -> None:
        self.entries.append(_OFFSET_ENTRY.pack(last_offset - self.base_offset, position))

    def lookup(self, offset: int) -> tuple[int, int] | None:
        """The last entry whose offset is not above the one asked for."""
        n = _last_not_above(self.entries, _OFFSET_ENTRY, offset - self.base_offset)
        return self.entry(n) if n >= 0 else None

    def first_from(self, position: int) -> int | None:
        """The last offset of the first batch with an entry that begins at a position or after it."""
        low, high = 0, self.entries.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.entry(low)[0] if low < self.entries.count else None

    def truncate_to(self, position: int) -> tuple[int, int] | None:
        """Drops entries of batches that begin at a position or after it; gives the last that stays. May wait."""
        count = self.entries.count
        while count and self.entry(count - 1)[1] >= position:
            count -= 1
        self.entries.truncate(count)
        return self.entry(count - 1) if count else None

    def keep_sound(self, below: int) -> None:
        """Keeps entries from the first on as long as they rise and are for offsets below the given one.

        Of what was written after the last sync a loss of power leaves any part, and zeros between.
        """
        count, before = 0, (-1, 0)  # the first batch of a segment has no entry
        for relative, position in _OFFSET_ENTRY.iter_unpack(self.entries.in_file()):
            if relative <= before[0] or position <= before[1] or self.base_offset + relative >= below:
                break
            count, before = count + 1, (relative, position)
        self.entries.truncate(count)


class TimeEntry(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex:
    """Entries (largest timestamp so far, offset of the last record of the batch that has it); both only ever grow."""

    def __init__(self, disk: Disk, path: str, base_offset: int, max_bytes: int) -> None:
        self.entries = EntryFile(disk, path, _TIME_ENTRY.size, max_bytes)
        self.base_offset = base_offset
        self._last_timestamp = -1

    def load(self, size: int) -> None:
        """Takes over what lies on disk. Reads the last entry now: an append must not have to wait for it later."""
        self.entries.load(size)
        self._find_last()

    def _find_last(self) -> None:
        last = self.last()
        self._last_timestamp = -1 if last is None else last.timestamp

    @property
    def is_full(self) -> bool:
        return self.entries.count >= self.entries.max_entries - 1  # one place is kept for the entry made when rolling

    def entry(self, n: int) -> TimeEntry:
        timestamp, relative = _TIME_ENTRY.unpack(self.entries.raw(n))
        return TimeEntry(timestamp, self.base_offset + relative)

    def last(self) -> TimeEntry | None:
        return self.entry(self.entries.count - 1) if self.entries.count else None

    def maybe_append(self, timestamp: int, offset: int) -> None:
        if timestamp > self._last_timestamp:
            self.entries.append(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))
            self._last_timestamp = timestamp

    def lookup(self, timestamp: int) -> TimeEntry | None:
        """The last entry whose timestamp is not above the one asked for."""
        n = _last_not_above(self.entries, _TIME_ENTRY, timestamp)
        return self.entry(n) if n >= 0 else None

    def keep_sound(self, below: int) -> None:
        """Keeps entries from the first on as long as they rise and point below an offset; see `OffsetIndex`."""
        count, before = 0, (-1, -1)
        for timestamp, relative in _TIME_ENTRY.iter_unpack(self.entries.in_file()):
            if timestamp <= before[0] or relative < before[1] or self.base_offset + relative >= below:
                break
            count, before = count + 1, (timestamp, relative)
        self.drop_after(count)

    def truncate_to(self, offset: int) -> TimeEntry | None:
        """Drops entries that point to an offset or beyond; gives the last that stays. May wait."""
        count = self.entries.count
        while count and self.entry(count - 1).offset >= offset:
            count -= 1
        self.drop_after(count)
        return self.last()

    def drop_after(self, count: int) -> None:
        self.entries.truncate(count)
        self._find_last()

    def begin_rebuild(self) -> None:
        self.entries.begin_rebuild()
        self._last_timestamp = -1


def _last_not_above(entries: EntryFile, layout: Struct, key: int) -> int:
    """Binary search on the first field of the entries; -1 if all are above the key."""
    low, high = 0, entries.count
    while low < high:
        middle = (low + high) // 2
        if layout.unpack(entries.raw(middle))[0] <= key:
            low = middle + 1
        else:
            high = middle
    return low - 1
