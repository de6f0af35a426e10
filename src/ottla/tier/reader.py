"""Reads batches of a segment that is in the remote tier: by offset and by time, and which transactions were aborted."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.log.txn_index import AbortedTxn, unpacked
from ottla.record.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, parse_header
from ottla.tier.chunks import AHEAD, Chunks
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject
from ottla.tier.remote_segment import RemoteSegment

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_MOST_BYTES: Final = 8 * 1024 * 1024


class SegmentReader:
    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    async def read(self, segment: RemoteSegment, offset: int, max_bytes: int, *, at_least_one: bool) -> bytes:
        """From the batch that holds an offset on, to the end of the segment at most. The last batch may be cut.

        Empty if there is no such batch in the segment, or if it is larger than it may be.
        """
        found = await self._find(segment, offset)
        if found is None:
            return b""
        position, header = found
        size = max(min(max_bytes, _MOST_BYTES), header.size if at_least_one else 0)
        size = min(size, segment.size - position)
        if size < header.size:
            return b""
        size = max(self._at_hand(segment, position, size), header.size)
        data = await self._bytes(segment, position, size)
        self._chunks.read_ahead(segment, (position + size) // CHUNK_BYTES)
        return data

    def _at_hand(self, segment: RemoteSegment, position: int, size: int) -> int:
        """How much of it need not be waited for, to the end of the first chunk at least: that is given at once, and the
        rest when it is asked for."""
        number = position // CHUNK_BYTES + 1
        while number * CHUNK_BYTES < position + size and self._chunks.has(segment, number):
            number += 1
        return min(number * CHUNK_BYTES - position, size)

    def is_near_end(self, segment: RemoteSegment, offset: int) -> bool:
        """Whether who reads there will soon need the next segment; by guess, since only the index knows."""
        span = max(segment.end_offset - segment.start_offset + 1, 1)
        done = (offset - segment.start_offset) / span
        return segment.size * (1 - done) < AHEAD * CHUNK_BYTES / 2

    def expect(self, segment: RemoteSegment) -> None:
        """Somebody will read it from its beginning on, soon."""
        self._chunks.read_ahead(segment, 0)

    async def find_time(self, segment: RemoteSegment, timestamp: int, from_offset: int) -> bytes | None:
        """The first batch, not wholly below an offset, that may have a record at or after a time."""
        before = _last_not_above(await self._chunks.whole(segment, Kind.TIME_INDEX), _TIME_ENTRY, timestamp - 1)
        start = max(segment.start_offset + (before[1] if before is not None else 0), from_offset)
        found = await self._find(segment, min(start, segment.end_offset))
        while found is not None:
            position, header = found
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return await self._bytes(segment, position, header.size)
            found = await self._header(segment, position + header.size)
        return None

    async def aborted(self, segment: RemoteSegment) -> list[AbortedTxn]:
        return unpacked(await self._chunks.whole(segment, Kind.TXN_INDEX))

    # -- places

    async def _find(self, segment: RemoteSegment, offset: int) -> tuple[int, BatchHeader] | None:
        position = 0
        if offset > segment.start_offset:
            if self._chunks.expect(segment, Kind.INDEX):  # what it will lead to is brought beside it, not after it
                self._chunks.read_ahead(segment, _guessed_chunk(segment, offset), 2)
            index = await self._chunks.whole(segment, Kind.INDEX)
            entry = _last_not_above(index, _OFFSET_ENTRY, offset - segment.start_offset)
            position = entry[1] if entry is not None else 0
        found = await self._header(segment, position)
        while found is not None and found[1].last_offset < offset:
            found = await self._header(segment, found[0] + found[1].size)
        return found

    async def _header(self, segment: RemoteSegment, position: int) -> tuple[int, BatchHeader] | None:
        if position + HEADER_SIZE > segment.size:
            return None
        header = parse_header(await self._bytes(segment, position, HEADER_SIZE))
        if header.length < HEADER_SIZE - LOG_OVERHEAD or header.magic != 2:
            raise DamagedObject(f"{object_key(segment, Kind.LOG)}: there is no batch at position {position}")
        return position, header

    async def _bytes(self, segment: RemoteSegment, position: int, size: int) -> bytes:
        first, last = position // CHUNK_BYTES, (position + size - 1) // CHUNK_BYTES
        if last > first:
            self._chunks.read_ahead(segment, first)
        parts = []
        for number in range(first, last + 1):
            start = number * CHUNK_BYTES
            chunk = await self._chunks.chunk(segment, Kind.LOG, number)
            parts.append(bytes(chunk[max(position - start, 0) : position + size - start]))
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _guessed_chunk(segment: RemoteSegment, offset: int) -> int:
    """Where an offset lies if records are about equally large; rather the chunk before than the one after."""
    share = (offset - segment.start_offset) / max(segment.end_offset - segment.start_offset + 1, 1)
    return max(int(share * segment.size / CHUNK_BYTES - 0.5), 0)


def _last_not_above(index: bytes, layout: Struct, key: int) -> tuple[int, int] | None:
    """Without unpacking them all: an index may have hundreds of thousands of entries."""
    low, high = 0, len(index) // layout.size
    while low < high:
        middle = (low + high) // 2
        if layout.unpack_from(index, middle * layout.size)[0] <= key:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return None
    first, second = layout.unpack_from(index, (low - 1) * layout.size)
    return first, second
