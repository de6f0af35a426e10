"""All batches of segments that follow each other, once each, whole, checked, and without waiting at every border."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.tier.far_store import ROUND_TRIP_S, FarStore, offset_behind

from ottla.env.object_store import ObjectMissing
from ottla.record.batch import parse_header
from ottla.sim.loop import SimLoop
from ottla.tier.chunks import Chunks
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject
from ottla.tier.reader import SegmentReader
from ottla.tier.remote_segment import RemoteSegment
from ottla.tier.segment_stream import PIECE_CHUNKS, PIECES_AHEAD, SegmentStream, Span

KEPT = 16 * CHUNK_BYTES


def whole(segment: RemoteSegment) -> Span:
    return Span(segment, segment.start_offset, segment.end_offset + 1)


def run(store: FarStore, spans: list[Span], work: Callable[[SegmentStream], Awaitable[Any]]) -> tuple[Any, float]:
    """What came of it, and how long it took."""
    loop = SimLoop()

    async def main() -> Any:
        chunks = Chunks(store, lambda: KEPT, lambda: 8)
        stream = SegmentStream(store, chunks, SegmentReader(chunks, lambda: KEPT), spans)
        try:
            return await work(stream)
        finally:
            stream.close()
            await chunks.close()

    try:
        return loop.run_until_complete(main()), loop.time()
    finally:
        loop.close()


def all_of(number: int) -> Callable[[SegmentStream], Awaitable[list[bytes]]]:
    async def read(stream: SegmentStream) -> list[bytes]:
        found = []
        for span in range(number):
            data = b""
            while (piece := await stream.read(span)) is not None:
                assert offset_behind(bytes(piece)) >= 0
                data += bytes(piece)
            found.append(data)
        return found

    return read


@pytest.mark.parametrize("batch_bytes", [5_000, 100_000, 1_000_000, 6_000_000])
def test_what_comes_is_the_file(batch_bytes: int) -> None:
    """Also of batches that are larger than what one request brings."""
    store = FarStore()
    segments = store.with_segments(0, 3, 13_000_000, batch_bytes)
    found, _ = run(store, [whole(each) for each in segments], all_of(3))
    assert found == [store.objects[object_key(each, Kind.LOG)] for each in segments]
    logs = [key for key in store.asked if key.endswith(".log")]
    assert len(logs) == sum(-(-each.size // (PIECE_CHUNKS * CHUNK_BYTES)) for each in segments)  # nothing twice
    assert not any(key.endswith(".index") for key in store.asked)


def test_many_requests_are_under_way_and_segments_borders_are_no_stops() -> None:
    store = FarStore()
    segments = store.with_segments(0, 20, 3 * CHUNK_BYTES, 100_000)
    _, took = run(store, [whole(each) for each in segments], all_of(20))
    assert took < (20 / PIECES_AHEAD + 2) * ROUND_TRIP_S * 1.5
    logs = sum(key.endswith(".log") for key in store.asked)
    assert logs == 20
    assert store.most_under_way <= 2 * PIECES_AHEAD + 1  # with the manifests


@pytest.mark.parametrize(("start", "end"), [(0, 1), (7, 8), (3, 90), (41, 129), (129, 130), (60, 130)])
def test_a_part_of_a_segment(start: int, end: int) -> None:
    """Of the batches that hold it, and no more bytes of the store than those of its chunks."""
    store = FarStore()
    (segment,) = store.with_segments(0, 1, 13_000_000, 100_000)
    (found,), _ = run(store, [Span(segment, start, end)], all_of(1))
    assert parse_header(found).base_offset == start
    assert offset_behind(found) == min(end, segment.end_offset + 1)


def test_a_span_may_be_left_before_its_end() -> None:
    store = FarStore()
    segments = store.with_segments(0, 2, 30_000_000, 100_000)

    async def read(stream: SegmentStream) -> tuple[Any, Any]:
        return bytes(await stream.read(0) or b""), bytes(await stream.read(1) or b"")

    (first, second), _ = run(store, [whole(each) for each in segments], read)
    assert parse_header(first).base_offset == 0
    assert parse_header(second).base_offset == segments[1].start_offset


def test_what_was_given_is_good_until_the_call_after_the_next() -> None:
    """Who decodes it has asked for more already."""
    store = FarStore()
    (segment,) = store.with_segments(0, 1, 30_000_000, 130_000)

    async def read(stream: SegmentStream) -> bool:
        before, copy = None, b""
        while (piece := await stream.read(0)) is not None:
            if before is not None:
                assert bytes(before) == copy
            before, copy = piece, bytes(piece)
        return True

    assert run(store, [whole(segment)], read)[0]


def test_errors_name_the_object_and_come_with_the_segment_that_has_them() -> None:
    store = FarStore()
    segments = store.with_segments(0, 3, 3_000_000, 100_000)
    names = [object_key(each, Kind.LOG) for each in segments]
    flipped = bytearray(store.objects[names[1]])
    flipped[2_500_000] ^= 1
    store.objects[names[1]] = bytes(flipped)
    del store.objects[names[2]]

    async def read(stream: SegmentStream) -> int:
        assert await stream.read(0) is not None
        assert await stream.read(0) is None
        with pytest.raises(DamagedObject, match=names[1]):
            await stream.read(1)
        with pytest.raises(ObjectMissing, match=names[2]):
            await stream.read(2)
        return 1

    assert run(store, [whole(each) for each in segments], read)[0]
    assert store.asked.count(names[1]) == 2  # once more, it might have been the way


@pytest.mark.parametrize("cut", [1, 1_000_000])
def test_an_object_that_ends_too_early_is_named(cut: int) -> None:
    store = FarStore()
    (segment,) = store.with_segments(0, 1, 3_000_000, 100_000)
    name = object_key(segment, Kind.LOG)
    store.objects[name] = store.objects[name][:-cut]
    with pytest.raises(DamagedObject, match=name):
        run(store, [whole(segment)], all_of(1))


def test_nothing_is_left_under_way_when_it_is_closed() -> None:
    store = FarStore()
    (segment,) = store.with_segments(0, 1, 30_000_000, 100_000)

    async def read(stream: SegmentStream) -> int:
        await stream.read(0)
        stream.close()
        await asyncio.sleep(10 * ROUND_TRIP_S)
        return len(store.asked)

    asked, _ = run(store, [whole(segment)], read)
    assert asked <= PIECES_AHEAD + 2
