"""A store that is far away, on virtual time: every answer takes a round trip, and its bytes take time too."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from tests.tier.given import OF

from ottla.env.object_store import ObjectMissing, StoredObject
from ottla.log.epochs import EpochStart
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import Summing, chunks_of, manifest_sum, write_manifest
from ottla.tier.remote_segment import RemoteSegment, SegmentState

ROUND_TRIP_S: Final = 0.05
_BYTES_A_SECOND: Final = 400_000_000  # of one connection
_INDEX_EVERY: Final = 4096


class FarStore:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.under_way = self.most_under_way = 0

    async def get(self, key: str, start: int, end: int) -> bytes:
        return await self._sent(key, self._there(key)[start:end])

    async def read(self, key: str) -> bytes:
        return await self._sent(key, self._there(key))

    def _there(self, key: str) -> bytes:
        if key not in self.objects:
            raise ObjectMissing(f"{key} is not in the store")
        return self.objects[key]

    async def _sent(self, key: str, data: bytes) -> bytes:
        self.asked.append(key)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(ROUND_TRIP_S + len(data) / _BYTES_A_SECOND)
        self.under_way -= 1
        return data

    async def put(self, key: str, data: Iterable[bytes]) -> None:
        self.objects[key] = b"".join(data)

    async def delete(self, keys: Sequence[str]) -> None:
        raise NotImplementedError

    async def list(self, prefix: str) -> list[StoredObject]:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def with_segments(self, partition: int, count: int, size: int, batch_bytes: int) -> builtins.list[RemoteSegment]:
        """Segments of one partition that follow each other, of equal batches."""
        batch = bytearray(build_batch([Record(None, bytes(batch_bytes - 80), 1)], base_offset=0))
        records = size // len(batch)
        segments = []
        for number in range(count):
            first = number * records
            log, index = bytearray(), bytearray()
            since = 0
            for n in range(records):
                batch[:8] = (first + n).to_bytes(8, "big")
                if since > _INDEX_EVERY:
                    index += n.to_bytes(4, "big") + len(log).to_bytes(4, "big")
                    since = 0
                log += batch
                since += len(batch)
            segments.append(self._add(partition, number, first, first + records - 1, bytes(log), bytes(index)))
        return segments

    def _add(self, partition: int, number: int, first: int, last: int, log: bytes, index: bytes) -> RemoteSegment:
        of = OF._replace(partition=partition)
        epochs = (EpochStart(0, first),)
        segment = RemoteSegment(
            of, UUID(int=1000 * partition + number), first, last, 1, 1, 0, epochs, len(log), SegmentState.COPY_FINISHED,
            has_no_aborted=True,
        )  # fmt: skip
        sums = {}
        for kind, data in ((Kind.LOG, log), (Kind.INDEX, index)):
            summing = Summing(chunks_of(data))
            self.objects[object_key(segment, kind)] = b"".join(summing)
            sums[kind] = summing.sums
        manifest = write_manifest(segment, sums)
        self.objects[object_key(segment, Kind.MANIFEST)] = manifest
        return segment._replace(custom=manifest_sum(manifest))


def offset_behind(data: bytes) -> int:
    """Where who has read this goes on: behind the last whole batch."""
    position, offset = 0, -1
    while position + 61 <= len(data):
        header = parse_header(data[position : position + 61])
        position += header.size
        if position > len(data):
            break
        offset = header.next_offset
    return offset
