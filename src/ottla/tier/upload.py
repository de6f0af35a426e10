"""Puts a closed segment into the store, object by object, the manifest last; and takes it out again.

Names are those of one attempt (the segment's id), so putting again what is there already changes nothing, and whatever
a crash leaves is found by the names in the metadata topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ottla.env.object_store import ObjectStore, StoreError
from ottla.env.ports import File
from ottla.tier.layout import Kind, object_key, object_keys
from ottla.tier.manifest import CHUNK_BYTES, Summing, Sums, chunks_of, manifest_sum, write_manifest
from ottla.tier.remote_segment import RemoteSegment


class SegmentFiles(NamedTuple):
    """What is to be copied. The file of batches is drawn piece by piece, the others are small."""

    log: File
    log_size: int
    offset_index: bytes
    time_index: bytes
    txn_index: bytes  # empty if no transaction was aborted in it
    epochs: bytes
    snapshot: bytes  # of the producers at the end of the segment


class FileCutShort(OSError):
    """The file of a segment ends before the segment does."""


async def upload(
    store: ObjectStore, segment: RemoteSegment, files: SegmentFiles, before: Callable[[int], None] = lambda size: None
) -> bytes:
    """Gives what the metadata topic is to say of it. `before` is called in a thread before so many bytes are read, and
    may take its time."""
    done: dict[Kind, Sums] = {}
    parts: tuple[tuple[Kind, Iterable[bytes]], ...] = (
        (Kind.LOG, _pieces(files.log, files.log_size, before)),
        (Kind.INDEX, chunks_of(files.offset_index)),
        (Kind.TIME_INDEX, chunks_of(files.time_index)),
        (Kind.TXN_INDEX, chunks_of(files.txn_index)),
        (Kind.EPOCHS, chunks_of(files.epochs)),
        (Kind.SNAPSHOT, chunks_of(files.snapshot)),
    )
    for kind, pieces in parts:
        if kind is Kind.TXN_INDEX and not files.txn_index:
            continue
        summing = Summing(pieces)
        await store.put(object_key(segment, kind), summing)
        done[kind] = summing.sums
    if done[Kind.LOG].size != files.log_size:
        raise FileCutShort(f"{files.log.path} ended at byte {done[Kind.LOG].size}, not {files.log_size}")
    manifest = write_manifest(segment, done)
    await store.put(object_key(segment, Kind.MANIFEST), [manifest])
    await _confirm(store, segment, done, manifest)
    return manifest_sum(manifest)


async def _confirm(store: ObjectStore, segment: RemoteSegment, done: dict[Kind, Sums], manifest: bytes) -> None:
    """StoreError if something is not there that the store has acknowledged: as long as the disk has it too, it can be
    put again. Each object's last byte is looked at, all at once, so that it costs a round trip."""

    async def has_end(key: str, size: int) -> None:
        # of one without bytes there is no range to ask for
        end = await store.get(key, size - 1, size + 1) if size else await store.read(key)
        if len(end) != min(size, 1):
            raise StoreError(f"{key} has not the {size} bytes that were put")

    async def has_manifest(key: str) -> None:
        if await store.read(key) != manifest:
            raise StoreError(f"{key} is not what was put")

    await asyncio.gather(
        has_manifest(object_key(segment, Kind.MANIFEST)),
        *(has_end(object_key(segment, kind), sums.size) for kind, sums in done.items()),
    )


async def remove(store: ObjectStore, segment: RemoteSegment) -> None:
    await store.delete(object_keys(segment))


def _pieces(file: File, size: int, before: Callable[[int], None]) -> Iterator[bytes]:
    """Read in the thread that sends them."""
    for position in range(0, size, CHUNK_BYTES):
        wanted = min(CHUNK_BYTES, size - position)
        before(wanted)
        piece = file.pread(wanted, position)
        if not piece:
            return
        yield piece
