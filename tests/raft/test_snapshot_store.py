"""Snapshots on disk: whole or not there, also after a crash."""

from random import Random

import pytest

from ottla.model.errors import OttlaError
from ottla.raft import snapshot_format
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.snapshot_store import SnapshotStore
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.disk import SimDisk

FOLDER = "/data/__cluster_metadata-0"
OLD, NEW = OffsetAndEpoch(5, 1), OffsetAndEpoch(9, 2)


def a_disk() -> SimDisk:
    disk = SimDisk(Random(1))
    disk.make_dirs(FOLDER)
    disk.sync_dir("/data")
    disk.sync_dir("/")
    return disk


def a_snapshot(id: OffsetAndEpoch) -> bytes:
    return snapshot_format.encode([build_batch([Record(None, b"x" * 500, 1)])], 7, epoch=id.epoch)


def found(disk: SimDisk, log_start_offset: int = 0) -> SnapshotStore:
    store = SnapshotStore(disk, FOLDER)
    store.recover(log_start_offset)
    return store


def test_what_was_written_is_found_after_a_power_loss() -> None:
    disk = a_disk()
    store = found(disk)
    store.write(OLD, a_snapshot(OLD))
    store.write(NEW, a_snapshot(NEW))

    for seed in range(10):
        after = found(disk.power_loss(Random(seed)))
        assert after.ids == [OLD, NEW]
        assert len(after.read(NEW).batches) == 1


def test_a_download_in_chunks_is_the_snapshot_that_was_sent() -> None:
    source, target = found(a_disk()), found(a_disk())
    source.write(NEW, a_snapshot(NEW))
    size = source.size(NEW)
    assert size is not None

    for position in range(0, size, 100):
        target.write_chunk(NEW, position, source.read_chunk(NEW, position, 100))
        assert target.size(NEW) is None
    contents = target.finish(NEW)

    assert contents == source.read(NEW)
    assert (target.latest, target.size(NEW)) == (NEW, size)


def test_a_download_that_was_damaged_on_its_way_does_not_count() -> None:
    disk = a_disk()
    store = found(disk)
    data = bytearray(a_snapshot(NEW))
    data[120] ^= 1
    store.write_chunk(NEW, 0, data)

    with pytest.raises(OttlaError, match="damaged"):
        store.finish(NEW)

    assert (store.ids, disk.list_dir(FOLDER)) == ([], [])


def test_parts_and_what_is_older_than_the_log_go_when_a_node_starts() -> None:
    disk = a_disk()
    store = found(disk)
    store.write(OLD, a_snapshot(OLD))
    store.write(NEW, a_snapshot(NEW))
    store.write_chunk(OffsetAndEpoch(12, 2), 0, b"half")

    assert found(disk, log_start_offset=9).ids == [NEW]
    assert disk.list_dir(FOLDER) == ["00000000000000000009-0000000002.checkpoint"]


def test_older_ones_go_when_they_are_told_to() -> None:
    store = found(a_disk())
    store.write(OLD, a_snapshot(OLD))
    store.write(NEW, a_snapshot(NEW))

    marked = store.forget_before(NEW.offset)

    assert store.ids == [NEW]
    assert marked == [f"{FOLDER}/00000000000000000005-0000000001.checkpoint.deleted"]
