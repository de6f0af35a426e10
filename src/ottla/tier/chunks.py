"""Chunks of segments in the remote tier, read ahead and kept in memory up to a limit.

A chunk is read once, however many wait for it, and checked against the manifest before anyone sees it. What is asked
for comes before what is only read ahead.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from ottla.env.object_store import ObjectStore
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject, Manifest, Sums, read_manifest
from ottla.tier.remote_segment import RemoteSegment

_MANIFESTS: Final = 1000
AHEAD: Final = 16

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
        self._kept: OrderedDict[ChunkKey, bytes] = OrderedDict()
        self._coming: dict[ChunkKey, asyncio.Task[bytes]] = {}
        self._manifests: OrderedDict[UUID, asyncio.Task[Manifest]] = OrderedDict()
        self._ahead: OrderedDict[ChunkKey, RemoteSegment] = OrderedDict()

    async def close(self) -> None:
        tasks = [*self._coming.values(), *self._manifests.values()]
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

    async def chunk(self, segment: RemoteSegment, kind: Kind, number: int) -> bytes:
        key: ChunkKey = (segment.id, kind, number)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        task = self._coming.get(key) or self._begin(segment, key)
        return await asyncio.shield(task)

    def has(self, segment: RemoteSegment, number: int) -> bool:
        return (segment.id, Kind.LOG, number) in self._kept

    async def whole(self, segment: RemoteSegment, kind: Kind) -> bytes:
        """A small object; empty for one that the segment does not have."""
        manifest = await self.manifest(segment)
        numbers = range(len(manifest.objects.get(kind, Sums(0, ())).crcs))
        return b"".join(await asyncio.gather(*(self.chunk(segment, kind, number) for number in numbers)))

    def read_ahead(self, segment: RemoteSegment, first: int) -> None:
        """Somebody reads on from a chunk: those that follow are brought as soon as nobody waits for others."""
        last = -(-segment.size // CHUNK_BYTES)
        for number in range(first, min(first + AHEAD, last)):
            key: ChunkKey = (segment.id, Kind.LOG, number)
            if key not in self._kept and key not in self._coming:
                self._ahead[key] = segment
                self._ahead.move_to_end(key)
        while len(self._ahead) > 8 * AHEAD:
            self._ahead.popitem(last=False)
        self._go_on()

    def _go_on(self) -> None:
        while self._ahead and len(self._coming) < self._reads_at_once():
            key, segment = self._ahead.popitem(last=False)
            if key not in self._kept and key not in self._coming:
                self._begin(segment, key)

    def _begin(self, segment: RemoteSegment, key: ChunkKey) -> asyncio.Task[bytes]:
        task = self._coming[key] = asyncio.ensure_future(self._read(segment, key))

        def done(_: asyncio.Task[bytes]) -> None:
            self._coming.pop(key, None)
            _heard(task)
            self._go_on()

        task.add_done_callback(done)
        return task

    async def _read(self, segment: RemoteSegment, key: ChunkKey) -> bytes:
        _, kind, number = key
        name = object_key(segment, kind)
        start = number * CHUNK_BYTES
        known = asyncio.ensure_future(self.manifest(segment))
        try:
            data = await self._store.get(name, start, start + CHUNK_BYTES)
            manifest = await known
        finally:
            if not known.done():
                known.cancel()
        try:
            _check(manifest, name, kind, number, data)
        except DamagedObject:  # once more: it may have been the way, not the store
            data = await self._store.get(name, start, start + CHUNK_BYTES)
            _check(manifest, name, kind, number, data)
        self._count(len(data))
        self._keep(key, data)
        return data

    def _keep(self, key: ChunkKey, data: bytes) -> None:
        self._kept[key] = data
        self.bytes_kept += len(data)
        while self.bytes_kept > self._most_bytes() and len(self._kept) > 1:
            _, gone = self._kept.popitem(last=False)
            self.bytes_kept -= len(gone)


def _check(manifest: Manifest, name: str, kind: Kind, number: int, data: bytes) -> None:
    if kind not in manifest.objects or number >= len(manifest.objects[kind].crcs):
        raise DamagedObject(f"{name} is not in the manifest of its segment, or shorter there")
    manifest.check(name, kind, number, data)


def _heard(task: asyncio.Task[Any]) -> None:
    """Whoever waits for it is told; an error that nobody waits for any more is none."""
    if not task.cancelled():
        task.exception()
