"""A node with several log dirs on real file systems, one of which is small enough to be filled."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from datetime import timedelta
from errno import EMFILE, ENFILE, ENOMEM
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.broker.apis.asking import PRODUCE, ask, create, metadata, topic_to_create
from tests.waiting import PATIENCE_S, attempts

from ottla.env.disk import PosixDisk, PosixFile
from ottla.model.errors import ErrorCode, OttlaError
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node

_LIBC = ctypes.CDLL(None, use_errno=True)
_DETACH = 2
MEGABYTE = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    if _LIBC.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=8m"):
        pytest.skip(f"a file system of its own cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    yield folder
    _LIBC.umount2(str(folder).encode(), _DETACH)


def produce(address: str, topic: str, partition: int, value: bytes) -> tuple[ErrorCode, int]:
    row = {"index": partition, "records": build_batch([Record(None, value, 1_700_000_000_000)])}
    topics = [{"name": topic, "partition_data": [row]}]
    answer = ask(address, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics)
    told = answer.responses[0].partition_responses[0]
    return told.error_code, told.base_offset


def partitions_in(running: RunningNode, folder: Path) -> list[int]:
    def look() -> list[int]:
        (found,) = (log_dir for log_dir in running.node.logs.dirs if log_dir.path == str(folder))
        return sorted(key.partition for key in found.logs)

    return running.on_loop(look)


def described(running: RunningNode, topic: str) -> dict[int, Any]:
    return {row.partition_index: row for row in metadata(running.address, topic).topics[0].partitions}


def until_offline(running: RunningNode, topic: str, partitions: list[int]) -> dict[int, Any]:
    """The controller hears of it a moment later."""
    for _ in attempts(topic):
        told = described(running, topic)
        if [number for number in told if told[number].leader_id < 0] == partitions:
            return told
    raise AssertionError


def values(address: str, topic: str, partition: int, count: int) -> list[bytes]:
    settings = {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    messages = consumer.consume(count, timeout=PATIENCE_S)
    consumer.close()
    return [message.value() or b"" for message in messages]


def test_a_full_disk_costs_its_partitions_and_nothing_that_was_acknowledged(tmp_path: Path, small_disk: Path) -> None:
    large = tmp_path / "large"
    settings = {"log_dirs": f"{large},{small_disk}"}
    acknowledged: dict[int, list[bytes]] = {number: [] for number in range(4)}

    def send(running: RunningNode, partition: int) -> ErrorCode:
        value = f"{partition}/{len(acknowledged[partition])}".encode().ljust(MEGABYTE // 2, b".")
        code, offset = produce(running.address, "t", partition, value)
        if code is ErrorCode.none:
            assert offset == len(acknowledged[partition])
            acknowledged[partition].append(value)
        return code

    with running_node(large, **settings) as running:
        create(running.address, topic_to_create("t", 4))
        sound, lost = partitions_in(running, large), partitions_in(running, small_disk)
        assert [send(running, number) for number in range(4)] == [ErrorCode.none] * 4
        # when the disk is full
        codes = [send(running, lost[0]) for _ in range(20)]
        assert codes[0] is ErrorCode.none
        assert codes[-1] is ErrorCode.kafka_storage_error
        # then its partitions are offline, and the others go on
        assert send(running, lost[1]) is ErrorCode.kafka_storage_error
        assert [send(running, number) for number in sound] == [ErrorCode.none] * 2
        told = until_offline(running, "t", lost)
        assert [list(told[number].offline_replicas) for number in lost] == [[1], [1]]
    # after a restart with more room everything is there
    _LIBC.mount(b"tmpfs", str(small_disk).encode(), b"tmpfs", 32, b"size=32m")  # MS_REMOUNT
    with running_node(large, **settings) as running:
        assert [send(running, number) for number in range(4)] == [ErrorCode.none] * 4
        for number, expected in acknowledged.items():
            assert values(running.address, "t", number, len(expected)) == expected


def test_a_disk_that_is_gone_at_the_start(tmp_path: Path) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"
    settings = {"log_dirs": f"{there},{gone}"}
    with running_node(there, **settings) as running:
        create(running.address, topic_to_create("t", 2))
        (sound,), (lost,) = partitions_in(running, there), partitions_in(running, gone)
        for number in (sound, lost):
            assert produce(running.address, "t", number, b"kept") == (ErrorCode.none, 0)
    gone.rename(tmp_path / "elsewhere")
    gone.write_text("something that is no folder")

    with running_node(there, **settings) as running:
        assert produce(running.address, "t", sound, b"more") == (ErrorCode.none, 1)
        assert produce(running.address, "t", lost, b"more") == (ErrorCode.kafka_storage_error, -1)
        assert list(described(running, "t")[lost].offline_replicas) == [1]

    gone.unlink()
    (tmp_path / "elsewhere").rename(gone)
    with running_node(there, **settings) as running:
        assert produce(running.address, "t", lost, b"more") == (ErrorCode.none, 1)
        assert values(running.address, "t", lost, 2) == [b"kept", b"more"]


def test_a_folder_whose_owner_cannot_be_read_is_offline_unless_the_metadata_is_in_it(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with running_node(first, log_dirs=f"{first},{second}"):
        pass
    (second / "meta.properties").write_text("version=1\n")
    with running_node(first, log_dirs=f"{first},{second}") as running:
        assert running.on_loop(lambda: list(running.node.logs.offline)) == [str(second)]
    (first / "meta.properties").write_text("version=1\n")
    with pytest.raises(OttlaError, match=r"cluster\.id"), running_node(first, log_dirs=f"{first},{second}"):
        pass


def test_partitions_of_a_dir_that_is_no_longer_configured_have_no_leader_and_lose_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka leaves them without a leader too, but makes empty ones beside, and does not start when the dir is back."""
    first, second = tmp_path / "first", tmp_path / "second"
    both, one = {"log_dirs": f"{first},{second}"}, {"log_dirs": str(first)}
    with running_node(first, **both) as running:
        create(running.address, topic_to_create("t", 4))
        kept, missing = partitions_in(running, first), partitions_in(running, second)
        for number in (*kept, *missing):
            assert produce(running.address, "t", number, b"acknowledged") == (ErrorCode.none, 0)
    with running_node(first, **one) as running:
        assert partitions_in(running, first) == kept
        told = described(running, "t")
        assert {number for number in told if told[number].leader_id < 0} == set(missing)
        assert {produce(running.address, "t", number, b"x")[0] for number in missing} == {ErrorCode.kafka_storage_error}
        assert {produce(running.address, "t", number, b"more")[0] for number in kept} == {ErrorCode.none}
        create(running.address, topic_to_create("new", 2))
        assert produce(running.address, "new", 0, b"x") == (ErrorCode.none, 0)
    assert "2 replicas of this node are offline" in caplog.text
    with running_node(first, **both) as running:
        for number in missing:
            assert values(running.address, "t", number, 1) == [b"acknowledged"]


@pytest.mark.parametrize("shortage", [EMFILE, ENFILE, ENOMEM])
def test_a_shortage_of_files_or_memory_takes_no_dir_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shortage: int
) -> None:
    real, is_short = PosixDisk.open, False

    def short(disk: PosixDisk, path: str, *, create: bool = False) -> PosixFile:
        if is_short and create:
            raise OSError(shortage, os.strerror(shortage), path)
        return real(disk, path, create=create)

    monkeypatch.setattr(PosixDisk, "open", short)
    with running_node(tmp_path) as running:
        small = {"segment.bytes": str(1 << 20)}
        create(running.address, topic_to_create("t", 1, configs=small), topic_to_create("other"))
        value = b"x" * 700_000
        assert produce(running.address, "t", 0, value)[0] is ErrorCode.none
        assert produce(running.address, "other", 0, b"x")[0] is ErrorCode.none
        is_short = True
        # a new segment would need a file, and so would a new partition
        assert produce(running.address, "t", 0, value)[0] is ErrorCode.kafka_storage_error
        assert produce(running.address, "other", 0, b"x")[0] is ErrorCode.none
        create(running.address, topic_to_create("new"))
        assert produce(running.address, "new", 0, b"x")[0] is not ErrorCode.none
        is_short = False
        # it passes, and nothing was lost
        assert produce(running.address, "t", 0, value) == (ErrorCode.none, 1)
        assert produce(running.address, "new", 0, b"x")[0] in (ErrorCode.none, ErrorCode.not_leader_or_follower)
        assert produce(running.address, "new", 0, b"x")[0] is ErrorCode.none
        assert not running.on_loop(lambda: list(running.node.logs.offline))
    with running_node(tmp_path) as running:
        assert values(running.address, "t", 0, 2) == [value, value]
