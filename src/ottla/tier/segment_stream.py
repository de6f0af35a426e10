"""Reads segments of the remote tier from one offset to another, one after the other, for a reader that wants all of it
once: several requests are under way, over the borders of segments too, and nothing is kept.

Every chunk is checked before anyone sees it, as in chunks.py. Batches do not end where chunks do: one that lies in two
pieces comes by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from ottla.env.object_store import HasThreads, ObjectStore
from ottla.env.ports import Buffer
from ottla.record.batch import HEADER_SIZE, LOG_OVERHEAD
from ottla.tier.chunks import Chunks, heard
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject, Manifest
from ottla.tier.reader import SegmentReader
from ottla.tier.remote_segment import RemoteSegment

PIECE_CHUNKS: Final = 8
PIECES_AHEAD: Final = 3
_LENGTH: Final = Struct(">i")
_LENGTH_AT: Final = 8


class Span(NamedTuple):
    """Offsets of a segment, the last of them not included."""

    segment: RemoteSegment
    start: int
    end: int


class _Coming(NamedTuple):
    span: int
    skipped: int  # bytes before the first batch
    is_last: bool
    data: asyncio.Task[memoryview]


class SegmentStream:
    def __init__(self, store: ObjectStore, chunks: Chunks, reader: SegmentReader, spans: Sequence[Span]) -> None:
        """On a running loop, where all of it is called."""
        self._store = store
        self._chunks = chunks
        self._reader = reader
        self._spans = spans
        self._bounds = [asyncio.ensure_future(self._bounds_of(span)) for span in spans]
        for bounds in self._bounds:
            bounds.add_done_callback(heard)
        self._asked, self._position = 0, -1  # the span and where in it the next request begins; -1 at its beginning
        self._coming: deque[_Coming] = deque()
        self._rest = b""
        self._rest_of = -1
        self._ready: list[tuple[int, Buffer]] = []  # whole batches that have come, each with its span

    async def read(self, span: int) -> Buffer | None:
        """The next whole batches of one; None if there are no more. Spans are read in their order, and one can be left
        before its end."""
        while True:
            while self._ready:
                number, batches = self._ready.pop(0)
                if number == span:
                    return batches
            await self._ask(span)
            if not self._coming or self._coming[0].span > span:
                return None
            number, skipped, is_last, task = self._coming.popleft()
            if number < span:
                task.cancel()
                continue
            data = await task
            await self._ask(span)
            joined, data = self._joined(number, data[skipped:])
            end = self._end_of_batches(span, data)
            self._rest += data[end:]
            if is_last and self._rest:
                raise DamagedObject(f"{self._key(span)} ends in the middle of a batch")
            self._ready = [(span, each) for each in (joined, data[:end]) if each]

    def close(self) -> None:
        for task in (*self._bounds, *(each.data for each in self._coming)):
            task.cancel()
        self._coming.clear()

    # -- asking

    async def _ask(self, span: int) -> None:
        """For as much as may be under way."""
        if self._asked < span:  # the one before was left
            self._asked, self._position = span, -1
        while len(self._coming) < PIECES_AHEAD and self._asked < len(self._spans):
            bounds = self._bounds[self._asked]
            if self._asked > span and self._coming and (not bounds.done() or bounds.exception() is not None):
                break  # those who wait for this span have nothing to do with it yet
            first, end = await asyncio.shield(bounds)
            start = first if self._position < 0 else self._position
            if start >= end:
                self._asked, self._position = self._asked + 1, -1
                continue
            segment, chunk = self._spans[self._asked].segment, start // CHUNK_BYTES
            stop = min((chunk + PIECE_CHUNKS) * CHUNK_BYTES, end)
            task = asyncio.ensure_future(self._get(segment, chunk, stop))
            task.add_done_callback(heard)
            self._coming.append(_Coming(self._asked, start - chunk * CHUNK_BYTES, stop == end, task))
            self._position = stop

    async def _bounds_of(self, span: Span) -> tuple[int, int]:
        """Where its first batch begins and its last one ends; what the segment has nothing of is empty."""
        segment, start, end = span.segment, 0, span.segment.size
        if span.start > segment.start_offset:
            found = await self._reader.place_of(segment, span.start)
            if found is None:
                return end, end
            start = found[0]
        if span.end <= segment.end_offset:
            found = await self._reader.place_of(segment, span.end - 1)
            end = end if found is None else found[0] + found[1].size
        return start, end

    async def _get(self, segment: RemoteSegment, chunk: int, stop: int) -> memoryview:
        """Whole chunks, of which the last may reach beyond the end, which is cut off."""
        key, start = object_key(segment, Kind.LOG), chunk * CHUNK_BYTES
        end = min(-(-stop // CHUNK_BYTES) * CHUNK_BYTES, segment.size)
        data, manifest = await self._chunks.with_manifest(segment, key, start, end)
        try:
            await self._check(manifest, key, chunk, data)
        except DamagedObject:  # once more: it may have been the way, not the store
            data = await self._store.get(key, start, end)
            await self._check(manifest, key, chunk, data)
        if len(data) != end - start:
            raise DamagedObject(f"{key} is shorter than the metadata topic says")
        return memoryview(data)[: stop - start]

    async def _check(self, manifest: Manifest, key: str, chunk: int, data: Buffer) -> None:
        if Kind.LOG not in manifest.objects:
            raise DamagedObject(f"{key} is not in the manifest of its segment")
        check = partial(manifest.check, key, Kind.LOG, chunk, data)
        if isinstance(self._store, HasThreads):
            await self._store.in_thread(check)
        else:
            check()

    # -- batches

    def _joined(self, span: int, data: memoryview) -> tuple[bytes, memoryview]:
        """The batch that began in the piece before, if it ends in this one, and what follows it: the rest of a piece is
        large, and is not copied for a batch."""
        if self._rest_of != span:
            self._rest_of, self._rest = span, b""
        if not self._rest:
            return b"", data
        missing = max(LOG_OVERHEAD - len(self._rest), 0)
        head = self._rest + data[:missing]
        if len(head) == LOG_OVERHEAD or len(self._rest) > LOG_OVERHEAD:
            missing = LOG_OVERHEAD + self._length(span, head, 0) - len(self._rest)
            if missing <= len(data):
                joined, self._rest = self._rest + data[:missing], b""
                return joined, data[missing:]
        self._rest += data
        return b"", data[len(data) :]

    def _end_of_batches(self, span: int, data: memoryview) -> int:
        """Where the last whole one ends."""
        end, size = 0, len(data)
        while end + HEADER_SIZE <= size:
            length = self._length(span, data, end)
            if end + LOG_OVERHEAD + length > size:
                break
            end += LOG_OVERHEAD + length
        return end

    def _length(self, span: int, data: Buffer, at: int) -> int:
        (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
        if length < HEADER_SIZE - LOG_OVERHEAD:
            raise DamagedObject(f"{self._key(span)} has something that is no batch among its batches")
        return int(length)

    def _key(self, span: int) -> str:
        return object_key(self._spans[span].segment, Kind.LOG)
