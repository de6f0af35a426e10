"""Chunks of segments in the remote tier, read ahead and kept in memory up to a limit.

A chunk is read once, however many wait for it, and checked against the manifest before anyone sees it. What is asked
for comes before what is only read ahead. What is read ahead comes several chunks at a time: fewer requests, and more
under way to a store that is far.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from ottla.env.object_store import ObjectStore
from ottla.env.ports import Buffer
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject, Manifest, Sums, read_manifest
from ottla.tier.remote_segment import RemoteSegment
from ottla.tier.slots import Slots

_MANIFESTS: Final = 1000
AHEAD: Final = 16
_RUN: Final = 4
_SMALL_BYTES: Final = CHUNK_BYTES // 8  # it would waste a slot

ChunkKey = tuple[UUID, Kind, int]


class Chunks:
    def __init__(
        self,
        store: ObjectStore,
        most_bytes: Callable[[], int],
        reads_at_once: Callable[[], int],
        count: Callable[[int], None] = lambda size: None,
    ) -> None:
        """`count` hears of every byte that comes from the store."""
        self.bytes_kept = 0
        self._store = store
        self._most_bytes = most_bytes
        self._reads_at_once = reads_at_once
        self._count = count
        self._slots = Slots(CHUNK_BYTES)
        self._kept: OrderedDict[ChunkKey, Buffer] = OrderedDict()
        self._coming: dict[ChunkKey, asyncio.Future[Buffer]] = {}
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
            task.add_done_callback(_heard)
            while len(self._manifests) > _MANIFESTS:
                self._manifests.popitem(last=False)
        self._manifests.move_to_end(segment.id)
        return await asyncio.shield(task)

    async def _read_manifest(self, segment: RemoteSegment) -> Manifest:
        key = object_key(segment, Kind.MANIFEST)
        return read_manifest(key, await self._store.read(key), segment.custom)

    # -- chunks

    async def chunk(self, segment: RemoteSegment, kind: Kind, number: int) -> Buffer:
        """To be copied from at once: it may be another's once somebody else has had the loop."""
        key: ChunkKey = (segment.id, kind, number)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        if key not in self._coming:
            self._begin(segment, key)
        return await asyncio.shield(self._coming[key])

    def has(self, segment: RemoteSegment, number: int) -> bool:
        return (segment.id, Kind.LOG, number) in self._kept

    def expect(self, segment: RemoteSegment, kind: Kind) -> bool:
        """Somebody will need an object, beginning with its first chunk. Whether that was news."""
        key: ChunkKey = (segment.id, kind, 0)
        is_new = key not in self._kept and key not in self._coming
        if is_new:
            self._begin(segment, key)
        return is_new

    async def whole(self, segment: RemoteSegment, kind: Kind) -> bytes:
        """A small object; empty for one that the segment does not have."""
        manifest = await self.manifest(segment)
        numbers = range(len(manifest.objects.get(kind, Sums(0, ())).crcs))

        async def copied(number: int) -> bytes:
            return bytes(await self.chunk(segment, kind, number))

        return b"".join(await asyncio.gather(*map(copied, numbers)))

    def read_ahead(self, segment: RemoteSegment, first: int, count: int = AHEAD) -> None:
        """Somebody reads on from a chunk: those that follow are brought as soon as nobody waits for others."""
        last = -(-segment.size // CHUNK_BYTES)
        for number in range(first, min(first + count, last)):
            key: ChunkKey = (segment.id, Kind.LOG, number)
            if key not in self._kept and key not in self._coming:
                self._ahead[key] = segment
                self._ahead.move_to_end(key)
        while len(self._ahead) > 8 * AHEAD:
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
        coming: dict[ChunkKey, asyncio.Future[Buffer]] = {}
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
                _heard(future)
            self._go_on()

        task.add_done_callback(done)

    async def _read(self, segment: RemoteSegment, coming: dict[ChunkKey, asyncio.Future[Buffer]]) -> None:
        """Who waits for one gets what came, not what is kept: that may have been given up before he looks at it."""
        _, kind, number = next(iter(coming))
        name = object_key(segment, kind)
        start = number * CHUNK_BYTES
        end = start + len(coming) * CHUNK_BYTES
        known = asyncio.ensure_future(self.manifest(segment))
        try:
            data = await self._store.get(name, start, end)
            manifest = await known
        finally:
            if not known.done():
                known.cancel()
        try:
            _check(manifest, name, kind, number, data)
        except DamagedObject:  # once more: it may have been the way, not the store
            data = await self._store.get(name, start, end)
            _check(manifest, name, kind, number, data)
        self._count(len(data))
        view = memoryview(data)
        for at, (key, future) in enumerate(coming.items()):
            chunk = view[at * CHUNK_BYTES : (at + 1) * CHUNK_BYTES]
            self._keep(key, chunk)
            if not future.done():
                future.set_result(chunk)

    def _keep(self, key: ChunkKey, data: Buffer) -> None:
        if key in self._kept:
            return
        self.bytes_kept += len(data)
        while self.bytes_kept > self._most_bytes() and self._kept:
            _, gone = self._kept.popitem(last=False)
            self.bytes_kept -= len(gone)
            if isinstance(gone, memoryview):
                self._slots.give_back(gone)
        self._kept[key] = self._slots.keep(data) if len(data) > _SMALL_BYTES else bytes(data)


def _check(manifest: Manifest, name: str, kind: Kind, number: int, data: Buffer) -> None:
    if kind not in manifest.objects or number >= len(manifest.objects[kind].crcs):
        raise DamagedObject(f"{name} is not in the manifest of its segment, or shorter there")
    manifest.check(name, kind, number, data)


def _heard(task: asyncio.Future[Any]) -> None:
    """Whoever waits for it is told; an error that nobody waits for any more is none."""
    if not task.cancelled():
        task.exception()
