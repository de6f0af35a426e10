"""A partition's records straight from the files of a simulated disk: an oracle must not ask the code that it judges."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from ottla.log.paths import LOG_SUFFIX, PARTITION_METADATA, SWAP_SUFFIX, parse_partition_dir
from ottla.model.names import METADATA_TOPIC_ID
from ottla.record.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, computed_crc, parse_header
from ottla.record.reader import read_records
from ottla.record.records import CorruptBatch
from ottla.sim.disk import SimDisk


class PartitionId(NamedTuple):
    """A topic of the same name that is made again is another topic."""

    topic_id: UUID
    partition: int


class StoredRecord(NamedTuple):
    value: bytes
    producer_id: int
    producer_epoch: int
    sequence: int
    key: bytes | None = None
    """None too where a key says nothing: in transactions, and their ends."""
    timestamp: int = -1


class StoredBatch(NamedTuple):
    base_offset: int
    next_offset: int
    size: int
    offsets: tuple[int, ...]
    records: tuple[StoredRecord, ...]


@dataclass(slots=True)
class StoredLog:
    """What a row of segments holds, up to the first byte that is no part of a good batch in its place."""

    start: int = 0
    end: int = 0
    records: dict[int, StoredRecord] = field(default_factory=dict)
    trouble: str = ""
    """Why reading ended before the last byte; empty if it did not."""


def partition_folders(files: Mapping[str, bytes | None], log_dir: str) -> dict[PartitionId, str]:
    """The folders of partitions that are in use, by what their `partition.metadata` says."""
    found: dict[PartitionId, str] = {}
    for path, content in files.items():
        folder, _, name = path.rpartition("/")
        if name != PARTITION_METADATA or content is None or not folder.startswith(f"{log_dir}/"):
            continue
        partition = parse_partition_dir(folder.rpartition("/")[2])
        topic_id = _topic_id(content)
        if partition is not None and topic_id is not None and topic_id != METADATA_TOPIC_ID:
            found[PartitionId(topic_id, partition.partition)] = folder
    return found


def _topic_id(content: bytes) -> UUID | None:
    name, _, value = content.rpartition(b"topic_id: ")
    try:
        return UUID(bytes=base64.urlsafe_b64decode(value + b"==")) if name else None
    except (ValueError, binascii.Error):
        return None


def read_folder(
    files: Mapping[str, bytes | None], folder: str, skip_below: int = 0, *, gaps: bool = False
) -> StoredLog:
    """The log in a folder. Segments wholly below `skip_below` are passed over: retention may have left any of them.

    With `gaps`, a segment may begin beyond the end of the one before it, as in a log that was compacted.
    """
    segments: dict[int, bytes] = {}
    for path, content in files.items():
        if path.startswith(f"{folder}/") and path.endswith(LOG_SUFFIX) and content is not None:
            segments[int(path[len(folder) + 1 : -len(LOG_SUFFIX)])] = content
    bases = sorted(segments)
    while len(bases) > 1 and bases[1] <= skip_below:
        del bases[0]
    log = StoredLog(bases[0], bases[0]) if bases else StoredLog()
    for base in bases:
        if gaps and base > log.end:
            log.end = base
        if base != log.end:
            log.trouble = f"a segment begins at {base}, the one before it ends at {log.end}"
            break
        if not _read_segment(segments[base], log, gaps=gaps):
            break
    return log


def first_hole(before: Mapping[str, bytes | None], after: Mapping[str, bytes | None], folder: str) -> int:
    """The first offset that a segment of a folder has lost, whatever comes after it; a large number if none has.

    One that was cleaned a moment ago may be a `.swap` again, or several.
    """
    ends, ends_now = _segment_ends(before, folder), _segment_ends(after, folder)
    swapped = _segment_ends(after, folder, LOG_SUFFIX + SWAP_SUFFIX)
    holes = [
        end_now
        for base, end in ends.items()
        if (end_now := ends_now.get(base, base)) < end and base not in swapped
        if not any(base < other < end for other in ends_now)
    ]
    return min(holes, default=sys.maxsize)


def _segment_ends(files: Mapping[str, bytes | None], folder: str, suffix: str = LOG_SUFFIX) -> dict[int, int]:
    """By base offset."""
    ends: dict[int, int] = {}
    for path, content in files.items():
        if path.startswith(f"{folder}/") and path.endswith(suffix):
            base = int(path[len(folder) + 1 : -len(suffix)])
            ends[base] = max((batch.next_offset for batch in _batches(content or b"")), default=base)
    return ends


def _read_segment(content: bytes, log: StoredLog, *, gaps: bool) -> bool:
    position = 0
    for batch in _batches(content):
        if batch.base_offset != log.end and not (gaps and batch.base_offset > log.end):
            log.trouble = f"a batch at byte {position} has offset {batch.base_offset} after {log.end - 1}"
            return False
        if batch.next_offset - batch.base_offset != len(batch.records) and not gaps:
            log.trouble = f"the batch at {batch.base_offset} has {len(batch.records)} records and ends elsewhere"
            return False
        log.records.update(zip(batch.offsets, batch.records, strict=True))
        log.end = batch.next_offset
        position += batch.size
    if position < len(content):
        log.trouble = f"{len(content) - position} bytes after offset {log.end - 1} are no batch"
        return False
    return True


def _batches(content: bytes) -> Iterator[StoredBatch]:
    position = 0
    while (batch := _batch_at(content, position)) is not None:
        yield batch
        position += batch.size


class LogCursor:
    """Reads a log that grows, each time from where it was, out of the files of a simulated disk.

    With `gaps`, in one that is cleaned: its files are not what they were.
    """

    def __init__(self, folder: str, *, gaps: bool = False) -> None:
        self._folder = folder
        self._gaps = gaps
        self._segment = -1
        self._position = 0
        self._next = 0
        self._content: bytearray | None = None
        """Of the segment, when it was read last: a cleaned one that has taken its place is another."""

    def read(self, disk: SimDisk, start: int, end: int) -> Iterator[StoredBatch]:
        """The batches that hold the offsets from `start` to before `end`."""
        if start < self._next or (self._gaps and not self._is_where_it_was(disk)):
            self._segment = -1
        while start < end:
            if self._segment < 0 and not self._find(disk, start):
                return
            content = self._content = disk.content(self._path(self._segment))
            if content is None:
                self._segment = -1
                return
            found = start
            while (batch := _batch_at(content, self._position)) is not None:
                if batch.base_offset >= end:
                    return
                self._position += batch.size
                self._next = batch.next_offset
                if self._next > start:
                    start = self._next
                    yield batch
                if start >= end:
                    return
            read = self._segment
            if read != start and disk.content(self._path(start)) is not None:
                self._segment, self._position = start, 0
            elif self._gaps:
                self._segment, start = -1, next((base for base in self._bases(disk) if base > read), end)
            elif start == found:
                return  # nothing more, or nothing that can be read

    def _is_where_it_was(self, disk: SimDisk) -> bool:
        return (
            self._segment >= 0
            and self._content is not None
            and disk.content(self._path(self._segment)) is self._content
            and self._position <= len(self._content)
        )

    def _path(self, base: int) -> str:
        return f"{self._folder}/{base:020d}{LOG_SUFFIX}"

    def _bases(self, disk: SimDisk) -> list[int]:
        names = disk.list_dir(self._folder) if disk.is_dir(self._folder) else []
        return sorted(int(name[: -len(LOG_SUFFIX)]) for name in names if name.endswith(LOG_SUFFIX))

    def _find(self, disk: SimDisk, offset: int) -> bool:
        below = [base for base in self._bases(disk) if base <= offset]
        if below:
            self._segment, self._position, self._next = below[-1], 0, below[-1]
        return bool(below)


def _batch_at(content: bytes | bytearray, position: int) -> StoredBatch | None:
    if position + HEADER_SIZE > len(content):
        return None
    header = parse_header(content, position)
    end = position + header.length + LOG_OVERHEAD
    if header.magic != MAGIC_V2 or header.length < HEADER_SIZE - LOG_OVERHEAD or end > len(content):
        return None
    return _parse(bytes(memoryview(content)[position:end]))


@lru_cache(maxsize=20_000)  # the same batches are read again at every crash
def _parse(data: bytes) -> StoredBatch | None:
    header = parse_header(data)
    if header.crc != computed_crc(data):
        return None
    try:
        records = read_records(data)
    except CorruptBatch:
        return None
    first, base = header.base_sequence, header.base_offset
    is_plain = not header.is_transactional and not header.is_control
    return StoredBatch(
        base,
        header.next_offset,
        header.size,
        tuple(record.offset for record in records),
        tuple(
            StoredRecord(
                record.value or b"",
                header.producer_id,
                header.producer_epoch,
                (first + record.offset - base) & 0x7FFFFFFF if first >= 0 else -1,
                record.key if is_plain else None,
                record.timestamp,
            )
            for record in records
        ),
    )
