"""Chunks of segments in the remote tier, read ahead and kept in memory up to a limit.

A chunk is read once, however many wait for it, and checked against the manifest before anyone sees it: in a thread,
where it is copied to its place too. What is asked for comes before what is only read ahead. What is read ahead comes
several chunks at a time (read_ahead.py): fewer requests, and more under way to a store that is far.

The oldest chunk of a log goes first, whether it was read or not: who reads on would otherwise keep what he has had and
lose what was read ahead for him. Indexes stay for as long as they are used.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from ottla.env.object_store import ObjectStore
from ottla.env.ports import Buffer
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject, Manifest, Sums, read_manifest
from ottla.tier.read_ahead import MOST, chunks_in
from ottla.tier.remote_segment import RemoteSegment
from ottla.tier.slots import Chunk, Slots

T = TypeVar("T")
_MANIFESTS: Final = 1000
_RUN: Final = 4
_SMALL_BYTES: Final = CHUNK_BYTES // 8  # it would waste a slot

ChunkKey = tuple[UUID, Kind, int]
OffLoop = Callable[[Callable[[], T]], Awaitable[T]]


async def _at_once(work: Callable[[], T]) -> T:
    return work()


async def _is_due(size: int) -> None:
    pass


class Chunks:
    def __init__(
        self,
        store: ObjectStore,
        most_bytes: Callable[[], int],
        reads_at_once: Callable[[], int],
        count: Callable[[int], None] = lambda size: None,
        off_loop: OffLoop[list[Chunk]] = _at_once,
        until_due: Callable[[int], Awaitable[None]] = _is_due,
    ) -> None:
        """`count` hears of every byte that comes from the store; `off_loop` calls something in a thread; `until_due`
        holds back who is about to ask for so many bytes."""
        self.bytes_kept = 0
        self._store = store
        self._most_bytes = most_bytes
        self._reads_at_once = reads_at_once
        self._count = count
        self._off_loop = off_loop
        self._until_due = until_due
        self._slots = Slots(CHUNK_BYTES)
        self._kept: OrderedDict[ChunkKey, Chunk] = OrderedDict()
        self._coming: dict[ChunkKey, asyncio.Future[Chunk]] = {}
        self._reading: set[asyncio.Task[None]] = set()
        self._manifests: OrderedDict[UUID, asyncio.Task[Manifest]] = OrderedDict()
        self._ahead: OrderedDict[ChunkKey, RemoteSegment] = OrderedDict()

    async def close(self) -> None:
        tasks: list[asyncio.Future[Any]] = [*self._reading, *self._coming.values(), *self._manifests.values()]
        self._ahead.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- manifests

    async def manifest(self, segment: RemoteSegment) -> Manifest:
        task = self._manifests.get(segment.id)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._manifests[segment.id] = asyncio.ensure_future(self._read_manifest(segment))
            task.add_done_callback(heard)
            while len(self._manifests) > _MANIFESTS:
                self._manifests.popitem(last=False)
        self._manifests.move_to_end(segment.id)
        return await asyncio.shield(task)

    async def _read_manifest(self, segment: RemoteSegment) -> Manifest:
        key = object_key(segment, Kind.MANIFEST)
        return read_manifest(key, await self._store.read(key), segment.custom)

    # -- chunks

    async def chunk(self, segment: RemoteSegment, kind: Kind, number: int) -> Chunk:
        key: ChunkKey = (segment.id, kind, number)
        kept = self._kept.get(key)
        if kept is not None:
            if kind is not Kind.LOG:
                self._kept.move_to_end(key)
            return kept
        if key not in self._coming:
            self._begin(segment, key)
        return await asyncio.shield(self._coming[key])

    def has(self, segment: RemoteSegment, number: int) -> bool:
        return (segment.id, Kind.LOG, number) in self._kept

    def is_coming(self, segment: RemoteSegment, number: int) -> bool:
        """Or is there already."""
        return self.has(segment, number) or (segment.id, Kind.LOG, number) in self._coming

    @property
    def is_crowded(self) -> bool:
        """Whether more is held by answers that are being sent than is kept: they should be short ones."""
        return self._slots.bytes_lent > 2 * self._most_bytes()

    def expect(self, segment: RemoteSegment, kind: Kind, number: int = 0) -> bool:
        """Somebody will need it at once, perhaps. Whether that was news."""
        key: ChunkKey = (segment.id, kind, number)
        is_new = key not in self._kept and key not in self._coming
        if is_new:
            self._begin(segment, key)
        return is_new

    async def all(self, segment: RemoteSegment, kind: Kind) -> list[Chunk]:
        """None for an object that the segment does not have."""
        manifest = await self.manifest(segment)
        numbers = range(len(manifest.objects.get(kind, Sums(0, ())).crcs))
        return list(await asyncio.gather(*(self.chunk(segment, kind, number) for number in numbers)))

    async def whole(self, segment: RemoteSegment, kind: Kind) -> bytes:
        """A small object; empty for one that the segment does not have."""
        return b"".join([chunk.view for chunk in await self.all(segment, kind)])

    def read_ahead(self, segment: RemoteSegment, first: int, count: int, run: int = 1) -> None:
        """Somebody reads on from a chunk: those that follow are brought, so many by one request. What does not make a
        whole run waits until it does: he would be asking for chunk after chunk, and each time wait for the store."""
        end, last = first + count, chunks_in(segment)
        self.bring(segment, first, last if end >= last else end - end % run)

    def bring(self, segment: RemoteSegment, first: int, end: int) -> None:
        """As soon as nobody waits for others."""
        for number in range(first, end):
            key: ChunkKey = (segment.id, Kind.LOG, number)
            if key not in self._kept and key not in self._coming:
                self._ahead[key] = segment
                self._ahead.move_to_end(key)
        while len(self._ahead) > 8 * MOST:
            self._ahead.popitem(last=False)
        self._go_on()

    def _go_on(self) -> None:
        while self._ahead and len(self._reading) < self._reads_at_once():
            key, segment = self._ahead.popitem(last=False)
            if key in self._kept or key in self._coming:
                continue
            count = 1
            while count < _RUN and self._ahead.pop((*key[:2], key[2] + count), None) is not None:
                count += 1
            self._begin(segment, key, count)

    def _begin(self, segment: RemoteSegment, first: ChunkKey, count: int = 1) -> None:
        """Brings a chunk, and some that follow it."""
        coming: dict[ChunkKey, asyncio.Future[Chunk]] = {}
        for number in range(first[2], first[2] + count):
            key: ChunkKey = (*first[:2], number)
            if key in self._kept or key in self._coming:
                break
            coming[key] = asyncio.get_running_loop().create_future()
        self._coming |= coming
        task = asyncio.ensure_future(self._read(segment, coming))
        self._reading.add(task)

        def done(_: asyncio.Task[None]) -> None:
            self._reading.discard(task)
            error = None if task.cancelled() else task.exception()
            for key, future in coming.items():
                self._coming.pop(key, None)
                if not future.done():
                    future.cancel() if error is None else future.set_exception(error)
                heard(future)
            self._go_on()

        task.add_done_callback(done)

    async def with_manifest(self, segment: RemoteSegment, name: str, start: int, end: int) -> tuple[Buffer, Manifest]:
        """A part of one of its objects, not checked yet, and what it is to be checked by: asked for side by side."""
        known = asyncio.ensure_future(self.manifest(segment))
        known.add_done_callback(heard)  # both may fail, and only the first is told
        try:
            return await self._store.get(name, start, end), await known
        finally:
            if not known.done():
                known.cancel()

    async def _read(self, segment: RemoteSegment, coming: dict[ChunkKey, asyncio.Future[Chunk]]) -> None:
        """Who waits for one gets what came, not what is kept: that may have been given up before he looks at it."""
        _, kind, number = next(iter(coming))
        name = object_key(segment, kind)
        start = number * CHUNK_BYTES
        end = start + len(coming) * CHUNK_BYTES
        if kind is Kind.LOG:
            await self._until_due(min(end, segment.size) - start)
        data, manifest = await self.with_manifest(segment, name, start, end)
        room = len(data)
        self._make_room(room)
        try:
            try:
                chunks = await self._off_loop(partial(self._taken_in, manifest, name, kind, number, data))
            except DamagedObject:  # once more: it may have been the way, not the store
                data = await self._store.get(name, start, end)
                chunks = await self._off_loop(partial(self._taken_in, manifest, name, kind, number, data))
        finally:
            self.bytes_kept -= room
        self._count(len(data))
        if len(chunks) < len(coming):
            raise DamagedObject(f"{name} is shorter than the metadata topic says")
        for chunk, (key, future) in zip(chunks, coming.items(), strict=True):
            self._keep(key, chunk)
            if not future.done():
                future.set_result(chunk)

    def _taken_in(self, manifest: Manifest, name: str, kind: Kind, number: int, data: Buffer) -> list[Chunk]:
        """In a thread."""
        if kind not in manifest.objects or number >= len(manifest.objects[kind].crcs):
            raise DamagedObject(f"{name} is not in the manifest of its segment, or shorter there")
        manifest.check(name, kind, number, data)
        view = memoryview(data)
        parts = [view[at : at + CHUNK_BYTES] for at in range(0, len(view), CHUNK_BYTES)]
        return [self._slots.keep(part) if len(part) > _SMALL_BYTES else Chunk(bytes(part)) for part in parts]

    def _make_room(self, size: int) -> None:
        """It counts from now on."""
        self.bytes_kept += size
        while self.bytes_kept > self._most_bytes() and self._kept:
            _, gone = self._kept.popitem(last=False)
            self.bytes_kept -= len(gone)

    def _keep(self, key: ChunkKey, chunk: Chunk) -> None:
        if key not in self._kept:
            self._make_room(len(chunk))
            self._kept[key] = chunk


def heard(task: asyncio.Future[Any]) -> None:
    """Whoever waits for it is told; an error that nobody waits for any more is none."""
    if not task.cancelled():
        task.exception()
