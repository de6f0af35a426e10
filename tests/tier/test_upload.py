"""What is in the store after a segment was put there, and how it is seen that something is wrong with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.tier.given import OF, segment

from ottla.env.disk import PosixDisk
from ottla.env.object_store import StoredObject, StoreError
from ottla.env.obstore_store import open_store
from ottla.tier.layout import Kind, object_key, object_keys, parse_key
from ottla.tier.manifest import CHUNK_BYTES, DamagedObject, read_manifest
from ottla.tier.remote_segment import RemotePartition
from ottla.tier.upload import FileCutShort, SegmentFiles, remove, upload

SEGMENT = segment(7, 100, 199, (4, 100))
FOLDER = "orders-bpsdOnsPTG6aUQ89LEtaaQ/3"


def files(tmp_path: Path, size: int = 2 * CHUNK_BYTES + 5, txn_index: bytes = b"") -> SegmentFiles:
    path = tmp_path / "00000000000000000100.log"
    path.write_bytes(bytes(range(256)) * (size // 256) + b"\x07" * (size % 256))
    return SegmentFiles(PosixDisk().open(str(path)), size, b"index", b"time", txn_index, b"0\n0\n", b"snapshot")


@pytest.mark.parametrize("txn_index", [b"", b"aborted"])
def test_a_segment_is_put_under_its_names_and_taken_away_again(tmp_path: Path, txn_index: bytes) -> None:
    async def scenario() -> None:
        store, given = open_store("memory:///", {}), files(tmp_path, txn_index=txn_index)
        sums = [await upload(store, SEGMENT, given) for _ in range(2)]  # again, as after a failure: the same
        assert sums[0] == sums[1]
        kinds = [kind for kind in Kind if kind is not Kind.TXN_INDEX or txn_index]
        names = [f"{FOLDER}/00000000000000000100-AAAAAAAAAAAAAAAAAAAABw.{kind.value}" for kind in kinds]
        stored = await store.list("")
        assert [each.key for each in stored] == sorted(names)
        assert StoredObject(object_key(SEGMENT, Kind.LOG), given.log_size) in stored
        key = object_key(SEGMENT, Kind.MANIFEST)
        data = await store.read(key)
        manifest = read_manifest(key, data, sums[0])
        assert manifest.size(Kind.LOG) == given.log_size and len(manifest.objects[Kind.LOG].crcs) == 3
        assert manifest.size(Kind.TXN_INDEX) == len(txn_index)
        for kind in kinds:
            if kind is not Kind.MANIFEST:
                manifest.check("x", kind, 0, await store.read(object_key(SEGMENT, kind)))
        assert json.loads(data)["leaderEpochs"] == [[4, 100]]
        await remove(store, SEGMENT)
        assert await store.list("") == []
        await remove(store, SEGMENT)

    asyncio.run(scenario())


@pytest.mark.parametrize("keeps", [None, 0, 3])
@pytest.mark.parametrize("kind", [Kind.LOG, Kind.INDEX, Kind.SNAPSHOT, Kind.MANIFEST])
def test_a_store_that_acknowledges_what_it_does_not_have_is_found_out(
    tmp_path: Path, kind: Kind, keeps: int | None
) -> None:
    """It keeps nothing, or only so many bytes of one object."""

    async def scenario() -> None:
        store, key = open_store("memory:///", {}), object_key(SEGMENT, kind)
        put = store.put

        async def lie(name: str, data: Iterable[bytes]) -> None:
            content = list(data)
            if name != key:
                await put(name, content)
            elif keeps is not None:
                await put(name, [b"".join(content)[:keeps]])

        with patch.object(store, "put", lie), pytest.raises(StoreError, match=key):
            await upload(store, SEGMENT, files(tmp_path))
        await upload(store, SEGMENT, files(tmp_path))

    asyncio.run(scenario())


def test_files_without_a_byte_are_put_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, given = open_store(f"file://{tmp_path}/store", {}), files(tmp_path)._replace(offset_index=b"")
        await upload(store, SEGMENT, given)
        assert await store.read(object_key(SEGMENT, Kind.INDEX)) == b""

    asyncio.run(scenario())


def test_a_file_that_ends_too_early_is_no_segment(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, given = open_store("memory:///", {}), files(tmp_path)
        with pytest.raises(FileCutShort):
            await upload(store, SEGMENT, given._replace(log_size=given.log_size + 1))
        assert object_key(SEGMENT, Kind.MANIFEST) not in [each.key for each in await store.list("")]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("first", "start", "size", "flip", "message"),
    [
        (0, 0, CHUNK_BYTES, None, None),
        (1, CHUNK_BYTES, CHUNK_BYTES + 5, None, None),
        (2, 2 * CHUNK_BYTES, 5, None, None),
        (0, 0, CHUNK_BYTES, 17, "key does not match its checksum in chunk 0"),
        (1, CHUNK_BYTES, CHUNK_BYTES + 5, CHUNK_BYTES + 2, "key does not match its checksum in chunk 2"),
        (1, CHUNK_BYTES, CHUNK_BYTES - 1, None, "key ends too early"),
        (2, 2 * CHUNK_BYTES, 4, None, "key ends too early"),
    ],
)
def test_chunks_are_checked(
    tmp_path: Path, first: int, start: int, size: int, flip: int | None, message: str | None
) -> None:
    async def scenario() -> None:
        store, given = open_store("memory:///", {}), files(tmp_path)
        await upload(store, SEGMENT, given)
        manifest = read_manifest("m", await store.read(object_key(SEGMENT, Kind.MANIFEST)))
        data = bytearray(given.log.pread(size, start))
        if flip is not None:
            data[flip] ^= 1
        if message is None:
            manifest.check("key", Kind.LOG, first, bytes(data))
        else:
            with pytest.raises(DamagedObject, match=message):
                manifest.check("key", Kind.LOG, first, bytes(data))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'{"format": 2}', b'{"format":1,"chunkBytes":5,"objects":{"log":{"size":9,"crc32c":[1]}}}'],
)
def test_what_is_no_manifest_is_named(data: bytes) -> None:
    with pytest.raises(DamagedObject, match="the-key"):
        read_manifest("the-key", data)


def test_a_manifest_is_checked_against_the_metadata_topic() -> None:
    with pytest.raises(DamagedObject, match="the-key"):
        read_manifest("the-key", b"{}", b"\x00\x00\x00\x00")


@pytest.mark.parametrize("key", object_keys(SEGMENT))
def test_a_name_tells_what_it_is_of(key: str) -> None:
    name = parse_key(key)
    assert name is not None and (name.of, name.base_offset, name.segment_id) == (OF, 100, SEGMENT.id)


def test_topics_may_have_any_name() -> None:
    odd = SEGMENT._replace(of=RemotePartition("a-b.c_d-1", OF.topic_id, 12))
    name = parse_key(object_key(odd, Kind.LOG))
    assert name is not None and name.of == odd.of


@pytest.mark.parametrize(
    "key", ["readme.txt", f"{FOLDER}/x.log", f"{FOLDER}/00000000000000000100-AAAAAAAAAAAAAAAAAAAABw.other"]
)
def test_other_objects_are_not_ours(key: str) -> None:
    assert parse_key(key) is None
