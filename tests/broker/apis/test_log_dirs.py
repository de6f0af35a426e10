"""DescribeLogDirs and AlterReplicaLogDirs, on a node with three log dirs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.broker.apis.altering import BROKER, set_config
from tests.broker.apis.asking import (
    ALTER_REPLICA_LOG_DIRS,
    DESCRIBE_LOG_DIRS,
    PRODUCE,
    ask,
    create,
    list_offset,
    topic_to_create,
)
from tests.waiting import PATIENCE_S, UNTENDED, until

from ottla.env.disk import PosixFile
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node

NAMES = ("first", "second", "third")
SMALL = {"internal_segment_bytes": "400", "index_interval_bytes": "0"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    parent = tmp_path_factory.mktemp("disks")
    return [str(parent / name) for name in NAMES]


@pytest.fixture(scope="module")
def node(folders: list[str]) -> Iterator[RunningNode]:
    with running_node(Path(folders[0]), log_dirs=",".join(folders), **UNTENDED) as running:
        yield running


def produce(address: str, topic: str, count: int = 1, *, identity: tuple[int, int] = (-1, -1)) -> tuple[ErrorCode, int]:
    records = [Record(b"key", b"value", 1_700_000_000_000 + number) for number in range(count)]
    producer, sequence = identity
    batch = build_batch(records, producer_id=producer, producer_epoch=min(producer, 0), base_sequence=sequence)
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(address, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics)
    row = answer.responses[0].partition_responses[0]
    return row.error_code, row.base_offset


def describe(address: str, *topics: str, version: int = 5) -> dict[str, Any]:
    wanted = [{"topic": topic, "partitions": [0, 1]} for topic in topics] if topics else None
    answer = ask(address, DESCRIBE_LOG_DIRS, version, topics=wanted)
    return {result.log_dir: result for result in answer.results}


def where(address: str, topic: str) -> dict[tuple[str, bool], Any]:
    """The rows of partition 0, by folder and whether it is on its way there."""
    return {
        (path, row.is_future_key): row
        for path, result in describe(address, topic).items()
        for found in result.topics
        for row in found.partitions
        if row.partition_index == 0
    }


def move(address: str, topic: str, path: str, *, partition: int = 0, version: int = 2) -> ErrorCode:
    dirs = [{"path": path, "topics": [{"name": topic, "partitions": [partition]}]}]
    (result,) = ask(address, ALTER_REPLICA_LOG_DIRS, version, dirs=dirs).results
    assert (result.topic_name, result.partitions[0].partition_index) == (topic, partition)
    code: ErrorCode = result.partitions[0].error_code
    return code


def until_in(address: str, topic: str, path: str) -> None:
    until(lambda: list(where(address, topic)) == [(path, False)], lambda: where(address, topic))


@pytest.mark.parametrize("version", range(1, 6))
def test_all_dirs_and_all_that_lies_in_them(
    node: RunningNode, folders: list[str], new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(partitions=3)
    produce(node.address, topic, 5)

    described = describe(node.address, version=version)

    assert list(described) == folders
    rows = [(path, row) for path in folders for found in described[path].topics for row in found.partitions]
    assert len(rows) >= 3
    for result in described.values():
        assert result.error_code is ErrorCode.none
        if version >= 4:
            assert 0 < result.usable_bytes <= result.total_bytes
            assert result.total_bytes == os.statvfs(folders[0]).f_blocks * os.statvfs(folders[0]).f_frsize
    (found,) = [
        row
        for path in folders
        for answered in described[path].topics
        if answered.name == topic
        for row in answered.partitions
        if row.partition_index == 0
    ]
    size = node.on_loop(lambda: node.node.replicas.by_name[topic, 0].log.size)
    assert (found.partition_size, found.offset_lag, found.is_future_key) == (size, 0, False)


def test_only_what_was_asked_for(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)

    described = describe(node.address, topic)

    assert [found.name for result in described.values() for found in result.topics] == [topic] * 2
    assert not any(result.topics for result in describe(node.address, "absent").values())
    answer = ask(node.address, DESCRIBE_LOG_DIRS, 5, topics=[])
    assert [len(result.topics) for result in answer.results] == [0, 0, 0]


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_moves_with_all_that_belongs_to_it(
    node: RunningNode, folders: list[str], new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(**SMALL)
    produced = [produce(node.address, topic, 3, identity=(7, 3 * number)) for number in range(8)]
    ((source, _),) = where(node.address, topic)
    target = next(folder for folder in folders if folder != source)

    assert move(node.address, topic, target, version=version) is ErrorCode.none
    until_in(node.address, topic, target)

    assert sorted(path.name.split(".")[0] for path in Path(target).glob(f"{topic}-0*")) == [f"{topic}-0"]
    assert not (Path(source) / f"{topic}-0").exists()
    assert list_offset(node.address, topic, -1).offset == 24
    assert list_offset(node.address, topic, 1_700_000_000_001).offset == 1
    for number in range(4, 8):  # those of the last five that an idempotent producer may send again
        assert produce(node.address, topic, 3, identity=(7, 3 * number)) == produced[number]
    assert produce(node.address, topic, 3, identity=(7, 24)) == (ErrorCode.none, 24)

    def directory() -> tuple[object, object]:
        (log_dir,) = (log_dir for log_dir in node.node.logs.dirs if log_dir.path == target)
        told = node.node.image.topic(topic)
        assert told is not None
        return log_dir.id, told.partitions[0].directories[0]

    here, told = node.on_loop(directory)
    assert here == told


def test_it_may_be_written_to_meanwhile(node: RunningNode, folders: list[str], new_topic: Callable[..., str]) -> None:
    topic = new_topic(internal_segment_bytes="2000", flush_messages="3")
    acknowledged: list[int] = []
    enough = Event()

    def write() -> None:
        while not enough.is_set():
            code, offset = produce(node.address, topic)
            assert code is ErrorCode.none
            acknowledged.append(offset)

    writer = Thread(target=write)
    writer.start()
    try:
        for target in [*folders, *folders]:
            count = len(acknowledged)
            assert move(node.address, topic, target) is ErrorCode.none
            until_in(node.address, topic, target)
            while len(acknowledged) < count + 5 and writer.is_alive():
                time.sleep(0.005)
    finally:
        enough.set()
        writer.join()
    assert acknowledged == list(range(len(acknowledged)))
    assert list_offset(node.address, topic, -1).offset == len(acknowledged)


def test_a_move_can_be_seen_and_called_back(
    node: RunningNode, folders: list[str], new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(**SMALL)
    for _ in range(10):
        produce(node.address, topic, 3)
    ((source, _),) = where(node.address, topic)
    target, other = (folder for folder in folders if folder != source)
    may_go_on, write = Event(), PosixFile.write

    def slow(file: PosixFile, buffers: Any, position: int) -> None:
        if "-future/" in file.path and file.path.endswith(".log"):
            may_go_on.wait(PATIENCE_S)
        write(file, buffers, position)

    monkeypatch.setattr(PosixFile, "write", slow)
    assert move(node.address, topic, target) is ErrorCode.none
    rows = where(node.address, topic)
    assert rows[source, False].offset_lag == 0
    assert (rows[target, True].offset_lag, rows[target, True].partition_size) == (30, 0)
    # to somewhere else, and then back to where it is
    assert move(node.address, topic, other) is ErrorCode.none
    assert set(where(node.address, topic)) == {(source, False), (other, True)}
    assert move(node.address, topic, source) is ErrorCode.none
    assert set(where(node.address, topic)) == {(source, False)}
    may_go_on.set()
    until(lambda: not any(name.endswith("-future") for folder in folders for name in os.listdir(folder)))
    assert produce(node.address, topic) == (ErrorCode.none, 30)


def test_errors(node: RunningNode, folders: list[str], new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert move(node.address, topic, "/nowhere") is ErrorCode.log_dir_not_found
    assert move(node.address, topic, folders[1] + "/") is ErrorCode.log_dir_not_found
    assert move(node.address, "absent", folders[1]) is ErrorCode.unknown_topic_or_partition
    assert move(node.address, topic, folders[1], partition=9) is ErrorCode.unknown_topic_or_partition
    assert move(node.address, "t" * 249, folders[1]) is ErrorCode.invalid_topic_exception


def test_a_partition_that_is_not_there_yet_is_made_where_it_was_to_go(node: RunningNode, folders: list[str]) -> None:
    for number, folder in enumerate(folders):
        name = f"to-be-{number}"
        assert move(node.address, name, folder) is ErrorCode.unknown_topic_or_partition
        create(node.address, topic_to_create(name, 1))
        assert list(where(node.address, name)) == [(folder, False)]


def test_a_dir_that_is_offline(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in NAMES]
    with running_node(Path(folders[0]), log_dirs=",".join(folders)) as running:
        address = running.address
        create(address, topic_to_create("t", 3))

        def fail() -> int:
            failing = running.node.logs.dirs[2]
            (key,) = failing.logs
            failing.fail(OSError(5, "Input/output error"))
            return key.partition

        lost = running.on_loop(fail)
        described = describe(address)
        assert described[folders[2]].error_code is ErrorCode.kafka_storage_error
        assert (described[folders[2]].topics, described[folders[2]].total_bytes) == ((), -1)
        kept = next(number for number in range(3) if number != lost)
        here = running.on_loop(lambda: running.node.logs.dir_of(TopicPartition("t", kept)))
        assert here is not None
        other = next(folder for folder in folders[:2] if folder != here.path)
        assert move(address, "t", folders[2], partition=kept) is ErrorCode.kafka_storage_error
        assert move(address, "t", folders[0], partition=lost) is ErrorCode.kafka_storage_error
        assert move(address, "t", other, partition=kept) is ErrorCode.kafka_storage_error
        assert move(address, "t", here.path, partition=kept) is ErrorCode.none, "it is there"


def test_a_move_that_was_cut_off_goes_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [str(tmp_path / name) for name in NAMES]
    settings = {"log_dirs": ",".join(folders)}
    write = PosixFile.write

    def stuck(file: PosixFile, buffers: Any, position: int) -> None:
        if "-future/" in file.path and file.path.endswith(".log"):
            time.sleep(1)
        write(file, buffers, position)

    with running_node(Path(folders[0]), **settings) as running:
        create(running.address, topic_to_create("t", 1, configs={"internal.segment.bytes": "400"}))
        for _ in range(5):
            produce(running.address, "t", 3)
        monkeypatch.setattr(PosixFile, "write", stuck)
        assert move(running.address, "t", folders[1]) is ErrorCode.none
    assert any(name.endswith("-future") for name in os.listdir(folders[1]))
    monkeypatch.setattr(PosixFile, "write", write)
    with running_node(Path(folders[0]), **settings) as running:
        until_in(running.address, "t", folders[1])
        assert list_offset(running.address, "t", -1).offset == 15
        assert produce(running.address, "t") == (ErrorCode.none, 15)


def test_a_moved_partition_keeps_its_epochs_and_its_start(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("one", "two")]

    def started() -> AbstractContextManager[RunningNode]:
        return running_node(Path(folders[0]), log_dirs=",".join(folders))

    with started() as node:
        create(node.address, topic_to_create("t"))
        produce(node.address, "t", 5)
    with started() as node:  # a new epoch, which has no batch when the log moves
        log = node.on_loop(lambda: node.node.replicas.by_name["t", 0].log)
        node.on_loop(lambda: node.node.replicas.by_name["t", 0].delete_records(3))
        target = next(folder for folder in folders if not log.folder.startswith(folder))
        assert move(node.address, "t", target) is ErrorCode.none
        until_in(node.address, "t", target)
        checkpoint = Path(target, "log-start-offset-checkpoint").read_text()
        assert "t 0 3" in checkpoint.splitlines()
        produce(node.address, "t", 5)
    with started() as node:
        log = node.on_loop(lambda: node.node.replicas.by_name["t", 0].log)
        written = {parse_header(batch).base_offset: parse_header(batch).leader_epoch for batch in log.batches_from(3)}
        assert [start.start_offset for start in log.epochs.starts[:2]] == [3, 5]
        assert [start.epoch for start in log.epochs.starts[:2]] == list(written.values())


def test_copies_that_nobody_goes_on_with_are_removed_at_the_start(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in NAMES]
    with running_node(Path(folders[0]), log_dirs=",".join(folders)) as running:
        create(running.address, topic_to_create("t"))
    stale = [
        tmp_path / "second" / f"{name}-0.{mark * 32}-future" for name, mark in (("t", "a"), ("t", "b"), ("gone", "c"))
    ]
    for folder in stale:
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(b"half of it")
    with running_node(Path(folders[0]), log_dirs=",".join(folders)):
        until(lambda: not any(folder.exists() for folder in stale))


def test_moves_are_no_faster_than_they_may_be(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in NAMES]
    rate = {"replica_alter_log_dirs_io_max_bytes_per_second": "400000"}
    with running_node(Path(folders[0]), log_dirs=",".join(folders)) as running:
        create(running.address, topic_to_create("t"))
        for _ in range(8):
            batch = build_batch([Record(None, os.urandom(500_000), 1_700_000_000_000)])
            topics = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
            within = timedelta(seconds=60)
            ask(running.address, PRODUCE, 9, acks=-1, timeout=within, transactional_id=None, topic_data=topics)
        set_config(running.address, BROKER, "", **rate)
        ((here, _),) = where(running.address, "t")
        target = next(path for path in folders if path != here)
        assert move(running.address, "t", target) is ErrorCode.none
        time.sleep(0.5)
        assert (target, True) in where(running.address, "t")  # it takes ten seconds
        # and a new rate counts at once
        set_config(running.address, BROKER, "", **dict.fromkeys(rate, None))
        until_in(running.address, "t", target)
