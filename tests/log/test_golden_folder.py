"""A partition's folder that Apache Kafka wrote and kill -9 left: all that Kafka says is in it must be found in it."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.log.given import append, batch, batches_of, check_finding, check_indexes, config, everything
from tests.log.on_disk import FixedClock, with_logs

from ottla.env.ports import Env
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.names import TopicPartition
from ottla.record.batch import Codec, parse_header
from ottla.record.reader import read_records
from ottla.replica.partition import Leadership, Partition

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-partition"
KEY = TopicPartition("golden", 0)
SETTINGS = config(retention_ms=-1, segment_bytes=1 << 20)


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN / "kafka-partition.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def topic_id(manifest: dict[str, Any]) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(manifest["topic_id"] + "=="))


def open_golden(
    folder: Path, manifest: dict[str, Any], story: Callable[[PartitionLog, Env], Awaitable[Any]], *, stop: bool = True
) -> Any:
    async def tell(manager: LogManager, env: Env) -> Any:
        (log,) = manager.all_logs()
        return await story(log, env)

    clock = FixedClock(manifest["recorded_at_ms"])
    return with_logs(folder, {KEY: (topic_id(manifest), SETTINGS)}, tell, clock=clock, stop=stop)


def check_everything(log: PartitionLog, manifest: dict[str, Any]) -> None:
    assert log.topic_id == topic_id(manifest)
    assert (log.start_offset, log.end_offset) == (manifest["log_start_offset"], manifest["log_end_offset"])
    assert [segment.base_offset for segment in log.segments] == manifest["segments"]
    assert [list(start) for start in log.epochs.starts] == manifest["epochs"]
    assert [txn._asdict() for txn in log.aborted_between(0, log.end_offset)] == manifest["aborted_transactions"]
    check_batches(log, manifest)
    check_records(log, manifest)
    check_producers(log, manifest)
    check_indexes(log)
    check_finding(log)


def check_batches(log: PartitionLog, manifest: dict[str, Any]) -> None:
    found = [(segment, scanned) for segment in log.segments for scanned in batches_of(segment)]
    assert len(found) == len(manifest["batches"])
    for (segment, scanned), expected in zip(found, manifest["batches"], strict=True):
        header = scanned.header
        assert {
            "segment": segment.base_offset,
            "position": scanned.position,
            "size": header.size,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "count": header.record_count,
            "base_sequence": header.base_sequence,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "leader_epoch": header.leader_epoch,
            "transactional": header.is_transactional,
            "control": header.is_control,
            "max_timestamp": header.max_timestamp,
            "codec": Codec(header.codec).name.lower(),
            "crc": header.crc,
            "valid": True,
        } == expected


def check_records(log: PartitionLog, manifest: dict[str, Any]) -> None:
    """With the aborted ones marked by what a read_committed reader is told."""
    aborted = sorted(log.aborted_between(log.start_offset, log.end_offset), key=lambda txn: txn.first_offset)
    found = []
    for data in everything(log, max_bytes=100_000):
        header = parse_header(data)
        if header.is_control:
            continue
        in_aborted = header.is_transactional and any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset < txn.last_offset
            for txn in aborted
        )
        for record in read_records(data):
            if record.offset >= log.start_offset:
                found.append(
                    {
                        "offset": record.offset,
                        "timestamp": record.timestamp,
                        "key": None if record.key is None else record.key.decode(),
                        "value_size": None if record.value is None else len(record.value),
                        "value_sha256": None if record.value is None else hashlib.sha256(record.value).hexdigest(),
                        "headers": [
                            [name, None if value is None else value.decode()] for name, value in record.headers
                        ],
                        "aborted": in_aborted,
                    }
                )
    assert found == manifest["records"]


def check_producers(log: PartitionLog, manifest: dict[str, Any]) -> None:
    found = {
        entry.producer_id: {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_sequence": entry.batches[-1].last_sequence if entry.batches else -1,
            "last_timestamp": entry.last_timestamp,
            "open_from_offset": entry.txn_first_offset if entry.txn_first_offset >= 0 else None,
        }
        for entry in log.producers.entries.values()
    }
    assert [found[producer_id] for producer_id in sorted(found)] == manifest["producers"]


def test_all_that_kafka_says_is_there(folder: Path, manifest: dict[str, Any]) -> None:
    async def story(log: PartitionLog, env: Env) -> None:
        check_everything(log, manifest)

    open_golden(folder, manifest, story)


def test_readers_of_committed_data_stop_where_kafkas_did(folder: Path, manifest: dict[str, Any]) -> None:
    async def story(log: PartitionLog, env: Env) -> None:
        partition = Partition(env, 1, KEY, log.topic_id, log, manifest["log_end_offset"])
        partition.lead_or_follow(Leadership(1, 7, (1,), (1,)))
        assert partition.high_watermark == manifest["log_end_offset"]
        assert partition.last_stable_offset == manifest["last_stable_offset"]

    open_golden(folder, manifest, story)


def test_a_second_start_after_another_kill_finds_the_same(folder: Path, manifest: dict[str, Any]) -> None:
    async def story(log: PartitionLog, env: Env) -> None:
        check_everything(log, manifest)

    open_golden(folder, manifest, story, stop=False)
    open_golden(folder, manifest, story, stop=True)
    open_golden(folder, manifest, story)


@pytest.mark.parametrize(
    "missing", [".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint", "checkpoint"]
)
def test_without_what_can_be_made_again(folder: Path, manifest: dict[str, Any], missing: str) -> None:
    """From the records that are still there: what only those before the log's first segment told is gone with them."""
    for path in [*(folder / "golden-0").iterdir(), folder / "recovery-point-offset-checkpoint"]:
        if path.name.endswith(missing):
            path.unlink()

    async def story(log: PartitionLog, env: Env) -> None:
        check_records(log, manifest) if missing != ".txnindex" else check_batches(log, manifest)
        check_producers(log, manifest)
        assert log.end_offset == manifest["log_end_offset"]
        epochs = [list(start) for start in log.epochs.starts]
        assert epochs == manifest["epochs"]

    open_golden(folder, manifest, story)


def test_it_is_appended_to_and_read_back(folder: Path, manifest: dict[str, Any]) -> None:
    end = manifest["log_end_offset"]

    async def write(log: PartitionLog, env: Env) -> None:
        assert append(log, batch(3, timestamp=manifest["recorded_at_ms"]), epoch=7) == end
        assert append(log, batch(2, producer_id=1003, sequence=8), epoch=7) == end + 3
        log.roll(manifest["recorded_at_ms"])
        assert append(log, batch(1, value=b"last"), epoch=7) == end + 5

    async def read(log: PartitionLog, env: Env) -> None:
        assert (log.start_offset, log.end_offset) == (manifest["log_start_offset"], end + 6)
        assert [list(start) for start in log.epochs.starts] == [*manifest["epochs"], [7, end]]
        batches = everything(log)
        assert [parse_header(data).base_offset for data in batches[-3:]] == [end, end + 3, end + 5]
        assert read_records(batches[-1])[0].value == b"last"
        assert len(batches) == len([b for b in manifest["batches"] if b["last_offset"] >= 78]) + 3
        assert log.producers.entries[1003].batches[-1].last_sequence == 9
        check_indexes(log)

    open_golden(folder, manifest, write)
    open_golden(folder, manifest, read, stop=False)
    open_golden(folder, manifest, read)
