"""Reads batches of a segment that is in the remote tier: by offset and by time, and which transactions were aborted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from struct import Struct
from typing import Any, Final

from ottla.env.ports import Buffer
from ottla.log.txn_index import AbortedTxn, unpacked
from ottla.record.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, parse_header
from ottla.tier.chunks import Chunks
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject
from ottla.tier.read_ahead import ReadAhead, chunks_in, run_of
from ottla.tier.remote_segment import RemoteSegment
from ottla.tier.stretch import NOTHING, Stretch

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_NEAR_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 4 * 1024 * 1024  # of an answer: it holds the chunks that it is sent from


class SegmentReader:
    def __init__(self, chunks: Chunks, most_bytes: Callable[[], int]) -> None:
        """`most_bytes` is what the chunks may take."""
        self._chunks = chunks
        self._ahead = ReadAhead(most_bytes)

    async def read(self, segment: RemoteSegment, offset: int, max_bytes: int, *, at_least_one: bool) -> Stretch | None:
        """From the batch that holds an offset on, or the next one, to the end of the segment at most. The last batch
        may be cut.

        None if the batch is larger than it may be; NOTHING if the segment has none from there on, since it was
        compacted before it was copied.
        """
        found = await self.place_of(segment, offset)
        if found is None:
            return NOTHING
        position, header = found
        self._ahead.note_batch(segment.of, header.size)
        size = max(min(max_bytes, _MOST_BYTES), header.size if at_least_one else 0)
        size = min(size, segment.size - position)
        if size < header.size:
            return None
        size = max(self._at_hand(segment, position, size), header.size)
        last = (position + size) // CHUNK_BYTES
        window = self._ahead.read(segment, position // CHUNK_BYTES, last)
        self._ask_for(segment, position, size)  # before what is read ahead, which does not wait for it
        self._read_ahead(segment, last, window, window)
        return await self._stretch(segment, position, size)

    def _at_hand(self, segment: RemoteSegment, position: int, size: int) -> int:
        """How much of it need not be waited for, to the end of the first chunk at least: that is given at once, and the
        rest when it is asked for."""
        number = position // CHUNK_BYTES + 1
        if self._chunks.is_crowded:
            return min(number * CHUNK_BYTES - position, size)
        while number * CHUNK_BYTES < position + size and self._chunks.has(segment, number):
            number += 1
        return min(number * CHUNK_BYTES - position, size)

    def _read_ahead(self, segment: RemoteSegment, first: int, count: int, window: int) -> None:
        """So many chunks of a window are in this segment."""
        self._chunks.read_ahead(segment, first, count, run_of(window))
        if chunks_in(segment) > first + 1:  # who reads on will look for his offset there, and should not wait for it
            self._chunks.expect(segment, Kind.INDEX)

    def go_on(
        self, segment: RemoteSegment, read: Stretch, following: Callable[[RemoteSegment], RemoteSegment | None]
    ) -> None:
        """Reads ahead in the next segments as well, if that is so far."""
        last = read.end // CHUNK_BYTES
        window = self._ahead.window(segment, last)
        left = last + window - chunks_in(segment)
        while left > 0 and (then := following(segment)) is not None:
            self._ahead.goes_on_in(then, window)
            self._read_ahead(then, 0, left, window)
            left -= chunks_in(then)
            segment = then

    async def find_time(self, segment: RemoteSegment, timestamp: int, from_offset: int) -> bytes | None:
        """The first batch, not wholly below an offset, that may have a record at or after a time."""
        times = _Entries([await self._chunks.whole(segment, Kind.TIME_INDEX)], _TIME_ENTRY)
        number = bisect_left(times, timestamp, key=itemgetter(0))
        start = max(segment.start_offset + (times[number - 1][1] if number > 0 else 0), from_offset)
        found = await self.place_of(segment, min(start, segment.end_offset))
        while found is not None:
            position, header = found
            if header.max_timestamp >= timestamp and header.last_offset >= from_offset:
                return bytes(await self._stretch(segment, position, header.size))
            found = await self._header(segment, position + header.size)
        return None

    async def offset_after(self, segment: RemoteSegment, read: Stretch) -> int:
        """An offset that no record of it reaches, by the index, as Kafka does it: aborted transactions that begin
        before it may matter to who reads it. Where there are few of those it is the end of the segment."""
        if segment.has_no_aborted or read.end >= segment.size:
            return segment.end_offset + 1
        index = await self._index(segment)
        number = bisect_left(index, read.end, key=itemgetter(1))
        return segment.end_offset + 1 if number == len(index) else segment.start_offset + index[number][0]

    async def aborted(self, segment: RemoteSegment) -> list[AbortedTxn]:
        if segment.has_no_aborted:
            return []
        return unpacked(await self._chunks.whole(segment, Kind.TXN_INDEX))

    # -- places

    async def place_of(self, segment: RemoteSegment, offset: int) -> tuple[int, BatchHeader] | None:
        """Of the batch that holds an offset, or the next one; none if the segment has none from there on."""
        position = 0
        if offset > segment.start_offset:
            if self._chunks.expect(segment, Kind.INDEX):  # what it will lead to is brought beside it, not after it
                for number in self._ahead.guessed(segment, offset):
                    self._chunks.expect(segment, Kind.LOG, number)
            index = await self._index(segment)
            number = bisect_left(index, offset - segment.start_offset, key=itemgetter(0))
            position = index[number - 1][1] if number > 0 else 0
            if (
                number < len(index)
                and index[number][1] > position + _NEAR_BYTES
                and self._chunks.is_coming(segment, index[number][1] // CHUNK_BYTES)
            ):
                # Entries tell where the batch of their offset begins, which is its last one. Among large batches this
                # one holds what is looked for, most likely, and the one before it need not be read.
                found = await self._header(segment, index[number][1])
                if found is not None and found[1].base_offset <= offset:
                    return found
        found = await self._header(segment, position)
        while found is not None and found[1].last_offset < offset:
            found = await self._header(segment, found[0] + found[1].size)
        return found

    async def _index(self, segment: RemoteSegment) -> _Entries:
        chunks = await self._chunks.all(segment, Kind.INDEX)
        return _Entries([chunk.view for chunk in chunks], _OFFSET_ENTRY, chunks)

    async def _header(self, segment: RemoteSegment, position: int) -> tuple[int, BatchHeader] | None:
        if position + HEADER_SIZE > segment.size:
            return None
        header = parse_header(bytes(await self._stretch(segment, position, HEADER_SIZE)))
        if header.length < HEADER_SIZE - LOG_OVERHEAD or header.magic != 2:
            raise DamagedObject(f"{object_key(segment, Kind.LOG)}: there is no batch at position {position}")
        return position, header

    def _ask_for(self, segment: RemoteSegment, position: int, size: int) -> range:
        """By one request if there is a turn for it, else side by side."""
        numbers = range(position // CHUNK_BYTES, (position + size - 1) // CHUNK_BYTES + 1)
        if len(numbers) > 1:
            self._chunks.bring(segment, numbers.start, numbers.stop)
        for number in numbers:
            self._chunks.expect(segment, Kind.LOG, number)
        return numbers

    async def _stretch(self, segment: RemoteSegment, position: int, size: int) -> Stretch:
        numbers = self._ask_for(segment, position, size)
        chunks = [await self._chunks.chunk(segment, Kind.LOG, number) for number in numbers]
        return Stretch(object_key(segment, Kind.LOG), chunks, position, size)


class _Entries(Sequence[tuple[int, int]]):
    """An index in parts, of which all but the last have the same size; unpacked as far as one looks at it, since there
    may be hundreds of thousands."""

    def __init__(self, parts: Sequence[Buffer], layout: Struct, held: object = None) -> None:
        """`held` is what the parts lie in."""
        self._parts = parts
        self._layout = layout
        self._held = held
        self._in_part = len(parts[0]) // layout.size if parts else 1

    def __len__(self) -> int:
        return sum(map(len, self._parts)) // self._layout.size

    def __getitem__(self, number: Any) -> Any:
        part, within = divmod(number, self._in_part)
        return self._layout.unpack_from(self._parts[part], within * self._layout.size)
