"""The same folder cleaned by Apache Kafka and by us: the same batches are left, and each goes on with the other's."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import NamedTuple
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.log.cleaning.given import SMALL, compacted, keyed
from tests.log.given import append, check_finding, check_indexes, marker
from tests.log.on_disk import with_logs
from tests.log.test_beside_apache_kafka import faults as faults_of_any
from tests.waiting import until

from ottla.env.ports import Env
from ottla.log.cleaning.cleaner import LogCleaner
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.names import TopicPartition
from ottla.record.batch import BatchHeader, Codec
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import Record
from ottla.testing.apache_kafka import ApacheKafka, available, dump_log_segments, free_port, tool

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not available(), reason="no Java, or Apache Kafka's jars are not there"),
]

KEY = TopicPartition("ours", 0)
TOPIC_ID = UUID(int=0x1234)
SETTINGS = compacted(segment_bytes=1 << 20, index_interval_bytes=500, delete_retention_ms=0)
TOPIC = {
    "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "segment.bytes": str(1 << 20),
    "index.interval.bytes": "500", "delete.retention.ms": "0",
}  # fmt: skip

STARTED = int(time.time() * 1000)  # producers that were not heard of for a day would be forgotten


def fill(log: PartitionLog, round_number: int) -> None:
    """Every codec, tombstones, idempotent batches, transactions that end either way; several segments."""
    now = STARTED + round_number
    sequences = {producer: round_number * 100 for producer in (3, 4, 50, 51)}

    def write(producer: int, n: int, *, txn: bool = False) -> None:
        pairs = [
            (b"key-%d" % ((n * 7 + i * 3) % 40), None if (n + i) % 9 == 0 else b"%d/%d " % (n, i) * (n % 5 + 1))
            for i in range(n % 6 + 1)
        ]
        batch = keyed(
            pairs, timestamp=now + n - n % 7 * 30, codec=list(Codec)[n % 5], producer_id=producer,
            sequence=sequences.get(producer, 0), transactional=txn, append_time=n % 11 == 0,
        )  # fmt: skip
        if producer >= 0:
            sequences[producer] += len(pairs)
        append(log, batch, now_ms=now)

    for n in range(100):
        write((-1, 3, 4)[n % 3], n)
        if n % 10 in (2, 3, 6):
            write(50 + n % 2, n, txn=True)
        if n % 10 == 8:
            for producer, commit in ((50, n % 20 == 8), (51, n % 20 != 8)):
                append(log, marker(producer, commit=commit, timestamp=now + n, coordinator=n), now_ms=now)
        if n % 25 == 24:
            log.roll(now)
    log.producers.on_high_watermark(log.end_offset)


def faults(done: CompletedProcess[str]) -> list[str]:
    """It lists offsets that are missing too, which is what compaction is about."""
    return [line for line in faults_of_any(done) if "is followed by" not in line]


class Left(NamedTuple):
    """A batch, but for what says when it was cleaned and what nobody can see."""

    header: BatchHeader
    records: list[Record]


def left(folder: Path) -> list[Left]:
    found = []
    for path in sorted((folder / str(KEY)).glob("*.log")):
        for header, batch in iterate_batches(path.read_bytes()):
            seen = header._replace(crc=0, base_timestamp=0, length=0)
            found.append(Left(seen, read_records(batch)))
    return found


def by_us(folder: Path, *, fills: int | None = None, cleans: bool = True) -> list[Left]:
    async def story(manager: LogManager, env: Env) -> None:
        log = manager.get_or_create(KEY, TOPIC_ID, SETTINGS)
        manager.cleaner = LogCleaner(env, manager._timers, manager, lambda: SMALL)
        if fills is not None:
            fill(log, fills)
        if cleans:
            manager.cleaner.wake()
            assert manager.cleaner._looking is not None
            await manager.cleaner._looking
            assert manager.dirs[0].cleaned_offsets[KEY] == log.active.base_offset
            check_finding(log, every=7)
            check_indexes(log)

    with_logs(folder, {KEY: (TOPIC_ID, SETTINGS)}, story)
    return left(folder)


def by_kafka(node: ApacheKafka, folder: Path, work: Path) -> list[Left]:
    """Gives the folder to a broker that cleans it; `work` gets what it leaves."""
    theirs = node.data / str(KEY)
    shutil.rmtree(theirs / "x", ignore_errors=True)
    for path in theirs.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (folder / str(KEY)).iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, theirs / path.name)
    checkpoint = node.data / "cleaner-offset-checkpoint"
    checkpoint.unlink(missing_ok=True)
    # An old high watermark would let it clean a part first, and the rest in a second cleaning.
    (node.data / "replication-offset-checkpoint").unlink(missing_ok=True)
    active = max(int(path.stem) for path in theirs.glob("*.log"))
    again = ApacheKafka.start(node.directory, free_port(), log_cleaner_backoff_ms=100)
    try:
        until(lambda: f"{KEY.topic} 0 {active}" in (checkpoint.read_text() if checkpoint.exists() else ""))
    finally:
        again.stop()
    shutil.copytree(theirs, work / str(KEY))
    for path in (work / str(KEY)).glob("*.deleted"):
        path.unlink()
    return left(work)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ApacheKafka]:
    """Stopped, with the topic in its metadata."""
    node = ApacheKafka.start(tmp_path / "kafka", free_port())
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic(KEY.topic, 1, 1, config=TOPIC)])[KEY.topic].result(30)
    node.stop()
    yield node
    node.kill()


def test_both_leave_the_same_and_clean_on_what_the_other_left(tmp_path: Path, node: ApacheKafka) -> None:
    # given a folder that nobody has cleaned
    by_us(tmp_path / "given", fills=0, cleans=False)
    shutil.copytree(tmp_path / "given", tmp_path / "ours")
    (tmp_path / "ours" / ".lock").unlink(missing_ok=True)

    # when both clean it
    ours = by_us(tmp_path / "ours")
    theirs = by_kafka(node, tmp_path / "given", tmp_path / "theirs")

    # then the same is left
    assert [batch.header for batch in ours] == [batch.header for batch in theirs]
    assert ours == theirs
    assert len(ours) < len(left(tmp_path / "given"))

    # and Kafka's tools find no fault with ours
    files = [path for path in sorted((tmp_path / "ours" / str(KEY)).iterdir()) if path.name[:20].isdigit()]
    done = dump_log_segments(*(path for path in files if path.suffix == ".log"), deep=True)
    assert done.returncode == 0, done.stderr
    assert not faults(done)
    indexes = [str(path) for path in files if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot")]
    done = tool("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(indexes))
    assert done.returncode == 0, done.stderr
    assert not faults(done)

    # when each gets what the other left, with more written to it
    time.sleep(0.01)  # delete.retention.ms is 0: what waits to go may go now
    by_us(tmp_path / "ours", fills=1, cleans=False)
    by_us(tmp_path / "theirs", fills=1, cleans=False)
    crossed = by_us(tmp_path / "theirs")
    further = by_kafka(node, tmp_path / "ours", tmp_path / "further")

    # then what is left has the same records again
    assert [batch.records for batch in crossed] == [batch.records for batch in further]
