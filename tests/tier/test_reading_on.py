"""Who reads on in a store that is far away waits for it when he begins, and hardly after that.

On virtual time: how long a round trip is counts here, and not how busy this machine is.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.tier.far_store import ROUND_TRIP_S, FarStore, offset_behind

from ottla.sim.loop import SimLoop
from ottla.tier.chunks import Chunks
from ottla.tier.manifest import CHUNK_BYTES
from ottla.tier.reader import SegmentReader
from ottla.tier.remote_segment import RemoteSegment

KEPT = 64 * CHUNK_BYTES
A_FETCH_S = 0.004  # from an answer to the next question


class Consumer:
    """Of partitions that are asked for together, each for a MiB, as clients do unless told otherwise."""

    def __init__(self, store: FarStore, logs: list[list[RemoteSegment]]) -> None:
        self.chunks = Chunks(store, lambda: KEPT, lambda: 10)
        self.most_kept = 0
        self._reader = SegmentReader(self.chunks, lambda: KEPT)
        self._logs = logs
        self._at = [0] * len(logs)

    async def read_all(self) -> None:
        while any(await asyncio.gather(*map(self._read, range(len(self._logs))))):
            self.most_kept = max(self.most_kept, self.chunks.bytes_kept)
            await asyncio.sleep(A_FETCH_S)
        await self.chunks.close()

    async def _read(self, partition: int) -> bool:
        log, offset = self._logs[partition], self._at[partition]
        segment = next((each for each in log if each.start_offset <= offset <= each.end_offset), None)
        if segment is None:
            return False

        def following(one: RemoteSegment) -> RemoteSegment | None:
            return next((each for each in log if each.start_offset == one.end_offset + 1), None)

        data = await self._reader.read(segment, offset, CHUNK_BYTES, at_least_one=True)
        assert data is not None
        self._reader.go_on(segment, data, following)
        self._at[partition] = offset_behind(bytes(data))
        return True


@pytest.mark.parametrize(
    ("partitions", "segments", "segment_bytes", "batch_bytes", "least"),
    [
        (4, 6, 16 * CHUNK_BYTES, 1_000_000, 350),
        (4, 6, 16 * CHUNK_BYTES, 100_000, 350),
        (4, 16, 3 * CHUNK_BYTES, 1_000_000, 220),
        (1, 6, 32 * CHUNK_BYTES, 100_000, 170),
        (12, 2, 16 * CHUNK_BYTES, 100_000, 250),
    ],
)
def test_so_many_megabytes_a_second(
    partitions: int, segments: int, segment_bytes: int, batch_bytes: int, least: int
) -> None:
    store = FarStore()
    logs = [store.with_segments(number, segments, segment_bytes, batch_bytes) for number in range(partitions)]
    loop = SimLoop()
    consumer = Consumer(store, logs)
    loop.run_until_complete(consumer.read_all())
    total = sum(segment.size for log in logs for segment in log)
    assert total / loop.time() / 1e6 > least
    assert consumer.most_kept <= KEPT


def test_an_index_is_there_before_it_is_needed() -> None:
    """It used to be asked for by the second read of every segment, which waited for it."""
    store = FarStore()
    logs = [store.with_segments(0, 4, 8 * CHUNK_BYTES, 100_000)]
    loop = SimLoop()
    loop.run_until_complete(Consumer(store, logs).read_all())
    reads = sum(segment.size for segment in logs[0]) / (CHUNK_BYTES - 100_000)
    assert loop.time() < reads * 1.2 * A_FETCH_S + 6 * ROUND_TRIP_S
