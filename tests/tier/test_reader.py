"""Batches of a segment in the tier, by offset and by time; chunks are read once, ahead, and kept within a limit."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.tier.faulty_store import FaultyStore
from tests.tier.given import OF

from ottla.env.disk import PosixDisk
from ottla.env.object_store import StoreError
from ottla.env.obstore_store import open_store
from ottla.log.epochs import EpochStart
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.tier.chunks import Chunks
from ottla.tier.layout import Kind
from ottla.tier.manifest import CHUNK_BYTES
from ottla.tier.read_ahead import MOST
from ottla.tier.reader import SegmentReader
from ottla.tier.remote_segment import RemoteSegment, SegmentState
from ottla.tier.slots import Chunk
from ottla.tier.upload import SegmentFiles, upload

BASE, PER_BATCH, BATCHES, VALUE = 1000, 4, 200, b"v" * 20_000
T0 = 5_000
Scenario = Callable[["Scene"], Coroutine[Any, Any, None]]


def unheard_errors(loop: asyncio.AbstractEventLoop) -> list[dict[str, Any]]:
    """Those that nobody has asked for, as they come."""
    found: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: found.append(context))
    return found


class Scene:
    """A segment of 16 MB in a store that counts, with an index entry for every third batch."""

    def __init__(self, store: FaultyStore, segment: RemoteSegment, kept: int) -> None:
        self.store = store
        self.segment = segment
        self.came: list[int] = []
        self.chunks = Chunks(store, lambda: kept, lambda: 4, self.came.append)
        self.reader = SegmentReader(self.chunks, lambda: kept)

    async def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        found = await self.reader.read(self.segment, offset, max_bytes, at_least_one=at_least_one)
        return b"" if found is None else bytes(found)

    def log_reads(self) -> int:
        return sum(operation == "get" and key.endswith(".log") for operation, key in self.store.asked)


def run(tmp_path: Path, scenario: Scenario, kept: int = 64 * 1024 * 1024) -> None:
    async def whole() -> None:
        batches, positions, size = [], [], 0
        for number in range(BATCHES):
            first = number * PER_BATCH
            records = [Record(None, VALUE, T0 + first + n) for n in range(PER_BATCH)]
            batches.append(build_batch(records, base_offset=BASE + first))
            positions.append(size)
            size += len(batches[-1])
        (tmp_path / "log").write_bytes(b"".join(batches))
        index, times = bytearray(), bytearray()
        for number in range(2, BATCHES, 3):
            last = (number + 1) * PER_BATCH - 1
            index += last.to_bytes(4, "big") + positions[number].to_bytes(4, "big")
            times += (T0 + last).to_bytes(8, "big") + last.to_bytes(4, "big")
        files = SegmentFiles(
            PosixDisk().open(str(tmp_path / "log")), size, bytes(index), bytes(times), b"", b"0\n0\n", b""
        )
        end = BASE + BATCHES * PER_BATCH - 1
        segment = RemoteSegment(
            OF, OF.topic_id, BASE, end, 1, T0 + end - BASE, 0, (EpochStart(0, BASE),), size, SegmentState.COPY_FINISHED
        )
        store = FaultyStore(open_store("memory:///", {}))
        custom = await upload(store, segment, files)
        scene = Scene(store, segment._replace(custom=custom), kept)
        store.asked.clear()
        try:
            await scenario(scene)
        finally:
            await scene.chunks.close()
            await store.close()

    asyncio.run(whole())


def test_every_offset_is_found(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        for offset in range(BASE, scene.segment.end_offset + 1, 7):
            data = await scene.read(offset, 100)
            header = parse_header(data)
            assert header.base_offset <= offset <= header.last_offset
            assert len(data) == header.size
            assert await scene.read(offset, 100, at_least_one=False) == b""
        assert await scene.read(scene.segment.end_offset + 1, 100) == b""

    run(tmp_path, scenario)


def test_all_of_it_in_pieces_is_the_file(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        content, offset = (tmp_path / "log").read_bytes(), BASE
        got = b""
        while offset <= scene.segment.end_offset:
            data = await scene.read(offset, 1_500_000)
            position = 0
            while position + 61 <= len(data) and position + parse_header(data[position:]).size <= len(data):
                header = parse_header(data[position:])
                position += header.size
                offset = header.next_offset
            got += data[:position]
        assert got == content
        index = BATCHES // 3 * 8
        assert sum(scene.came) == len(content) + index  # each chunk once
        assert scene.log_reads() < -(-len(content) // CHUNK_BYTES) * 0.75  # several at a time, once he reads on

    run(tmp_path, scenario)


@pytest.mark.parametrize("number", [0, 1, 3, 4, 250, 399, 798, 799])
def test_a_time_is_found(tmp_path: Path, number: int) -> None:
    async def scenario(scene: Scene) -> None:
        batch = await scene.reader.find_time(scene.segment, T0 + number, BASE)
        assert batch is not None
        header = parse_header(batch)
        assert header.base_offset <= BASE + number <= header.last_offset
        assert await scene.reader.find_time(scene.segment, T0 + 10**6, BASE) is None

    run(tmp_path, scenario)


@pytest.mark.parametrize("number", [0, 1, 123, 400, 799])
def test_the_first_byte_needs_one_round_trip(tmp_path: Path, number: int) -> None:
    async def scenario(scene: Scene) -> None:
        trips = 0
        waiting: list[asyncio.Event] = []

        async def wait(operation: str, key: str) -> None:
            waiting.append(asyncio.Event())
            await waiting[-1].wait()

        scene.store.before = wait
        read = asyncio.ensure_future(scene.read(BASE + number, 1000))
        while not read.done():
            for _ in range(10):
                await asyncio.sleep(0)
            trips += bool(waiting)
            for each in waiting:  # the answers to all that was asked side by side
                each.set()
            waiting.clear()
            await asyncio.wait([read], timeout=0.05)
        assert parse_header(await read).last_offset >= BASE + number
        assert trips == 1

    run(tmp_path, scenario)


def test_what_is_at_hand_is_not_held_up_by_what_is_not(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        first = await scene.read(BASE, 8 * CHUNK_BYTES)
        assert len(first) == CHUNK_BYTES
        while scene.chunks._coming or scene.chunks._ahead:
            await asyncio.sleep(0.001)
        assert len(await scene.read(BASE, 8 * CHUNK_BYTES)) == 3 * CHUNK_BYTES

    run(tmp_path, scenario)


def test_an_index_that_is_known_is_not_guessed_over(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.read(BASE + 1, 1000)
        while scene.chunks._coming or scene.chunks._ahead:
            await asyncio.sleep(0.001)
        asked = len(scene.store.asked)
        await scene.read(BASE + 2, 1000)
        assert len(scene.store.asked) == asked

    run(tmp_path, scenario)


def test_memory_is_bounded_and_reading_ahead_too(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        await scene.read(BASE, 1000)
        while scene.chunks._coming or scene.chunks._ahead:
            await asyncio.sleep(0.001)
        assert scene.log_reads() <= MOST + 1
        assert scene.chunks.bytes_kept <= 3 * CHUNK_BYTES

    run(tmp_path, scenario, kept=3 * CHUNK_BYTES)


def test_many_who_wait_for_a_chunk_read_it_once(tmp_path: Path) -> None:
    async def scenario(scene: Scene) -> None:
        reads = [scene.read(BASE + n, 1000) for n in range(3)]
        assert all(await asyncio.gather(*reads))
        chunks = [key for operation, key in scene.store.asked if operation == "get" and key.endswith(".log")]
        assert len(chunks) <= MOST + 1
        manifests = [key for _, key in scene.store.asked if key.endswith(".manifest")]
        assert len(manifests) == 1

    run(tmp_path, scenario)


def test_of_large_batches_only_the_one_is_read_that_holds_the_offset(tmp_path: Path) -> None:
    """Every third has an entry, of its last offset: there the batch before it is not needed."""

    async def scenario(scene: Scene) -> None:
        number = 2 + 3 * 33
        offset = BASE + number * PER_BATCH + 1
        asked: list[int] = []
        chunk = scene.chunks.chunk

        async def noted(segment: RemoteSegment, kind: Kind, number: int) -> Chunk:
            if kind is Kind.LOG:
                asked.append(number)
            return await chunk(segment, kind, number)

        scene.chunks.chunk = noted  # type: ignore[method-assign]
        assert parse_header(await scene.read(offset, 1000)).base_offset == BASE + number * PER_BATCH
        batch = scene.segment.size / BATCHES
        needed = range(int(number * batch) // CHUNK_BYTES, int((number + 1) * batch) // CHUNK_BYTES + 1)
        assert set(asked) <= set(needed)

    run(tmp_path, scenario)


def test_where_all_requests_of_a_read_fail_no_error_is_left_over(tmp_path: Path) -> None:
    """The manifest is asked for beside the batches, and only one of both errors is told."""

    async def scenario(scene: Scene) -> None:
        async def fail(operation: str, key: str) -> None:
            if operation == "get":
                await asyncio.sleep(0.02)  # the manifest has failed by then
            raise StoreError(f"the store failed on {key}: it is down")

        unheard = unheard_errors(asyncio.get_running_loop())
        scene.store.before = fail
        for offset in (BASE, BASE + 300):
            with pytest.raises(StoreError):
                await scene.read(offset, 1000)
        await asyncio.sleep(0.05)
        gc.collect()
        assert not unheard

    run(tmp_path, scenario)
