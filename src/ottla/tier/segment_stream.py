"""Reads segments of the remote tier from one offset to another, one after the other, for a reader that wants all of it
once: several requests are under way, over the borders of segments too, and nothing is kept.

Every chunk is checked before anyone sees it, as in chunks.py. Batches do not end where chunks do: what a piece has of
its last one is put before the next piece.
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
        self._buffers = [bytearray(), bytearray()]

    async def read(self, span: int) -> Buffer | None:
        """The next whole batches of one; None if there are no more. Spans are read in their order, and one can be left
        before its end. What was given is good until the call after the next one: who decodes it may already have asked
        for more."""
        while True:
            await self._ask(span)
            if not self._coming or self._coming[0].span > span:
                return None
            number, skipped, is_last, task = self._coming.popleft()
            if number < span:
                task.cancel()
                continue
            data = await task
            await self._ask(span)
            data = self._behind_rest(number, data[skipped:])
            end = self._end_of_batches(span, data)
            self._rest = bytes(data[end:])
            if is_last and self._rest:
                raise DamagedObject(f"{self._key(span)} ends in the middle of a batch")
            if end:
                return data[:end]

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

    def _behind_rest(self, span: int, data: memoryview) -> memoryview:
        rest = self._rest if self._rest_of == span else b""
        self._rest_of = span
        if not rest:
            return data
        self._buffers.reverse()
        size = len(rest) + len(data)
        if len(self._buffers[0]) < size:
            self._buffers[0] = bytearray(max(size, (PIECE_CHUNKS + 1) * CHUNK_BYTES))
        whole = memoryview(self._buffers[0])[:size]
        whole[: len(rest)] = rest
        whole[len(rest) :] = data
        return whole

    def _end_of_batches(self, span: int, data: memoryview) -> int:
        """Where the last whole one ends."""
        end, size = 0, len(data)
        while end + HEADER_SIZE <= size:
            (length,) = _LENGTH.unpack_from(data, end + _LENGTH_AT)
            if length < HEADER_SIZE - LOG_OVERHEAD:
                raise DamagedObject(f"{self._key(span)} has something that is no batch among its batches")
            if end + LOG_OVERHEAD + length > size:
                break
            end += LOG_OVERHEAD + length
        return end

    def _key(self, span: int) -> str:
        return object_key(self._spans[span].segment, Kind.LOG)
