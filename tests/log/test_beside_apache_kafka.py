"""Folders that we wrote, in the hands of Apache Kafka: its tools find no fault, and its broker serves them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from uuid import UUID

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.log.given import append, batch, check_finding, check_indexes, config, everything, marker
from tests.log.on_disk import with_logs

from ottla.env.ports import Env
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.names import TopicPartition
from ottla.record.batch import Codec, parse_header
from ottla.record.reader import read_records
from ottla.testing.apache_kafka import ApacheKafka, available, dump_log_segments, free_port, tool

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not available(), reason="no Java, or Apache Kafka's jars are not there"),
]

KEY = TopicPartition("ours", 0)
TOPIC_ID = UUID(int=0x1234)
SETTINGS = config(segment_bytes=9_000, index_interval_bytes=500, retention_ms=-1)
STARTED = 1_700_000_000_000


def fill(log: PartitionLog, epochs: int = 3) -> None:
    """Every codec, several segments, idempotent and transactional batches, markers, timestamps out of order."""
    sequences: dict[int, int] = {}

    def write(producer: int, count: int, n: int, codec: Codec, *, txn: bool = False) -> None:
        sequence = sequences.get(producer, 0)
        sequences[producer] = sequence + count
        data = batch(
            count, timestamp=STARTED + 100 * n - n % 7 * 350, step=3, value=b"%d-%d " % (n, producer) * 20, codec=codec,
            producer_id=producer, sequence=sequence, transactional=txn,
        )  # fmt: skip
        append(log, data, epoch=n * epochs // 150, now_ms=STARTED)

    for n in range(150):
        codec = list(Codec)[n % 5]
        write((-1, 3, 4)[n % 3], n % 6 + 1, n, codec)
        if n % 10 in (2, 3, 6):
            write(50 + n % 2, 2, n, codec, txn=True)
        if n % 10 == 8 and n > 10:
            for producer, commit in ((50, n % 20 == 8), (51, n % 20 != 8)):
                ending = marker(producer, commit=commit, timestamp=STARTED + 100 * n, coordinator=n)
                append(log, ending, epoch=n * epochs // 150, now_ms=STARTED)
    assert len(log.segments) > 4


def write_folder(folder: Path, *, stop: bool, epochs: int = 3) -> list[bytes]:
    async def story(manager: LogManager, env: Env) -> list[bytes]:
        log = manager.get_or_create(KEY, TOPIC_ID, SETTINGS)
        fill(log, epochs)
        return everything(log)

    return with_logs(folder, {KEY: (TOPIC_ID, SETTINGS)}, story, stop=stop)


_FAULTS = ("mismatch", "isvalid: false", "out of order", "not found", "is followed by", "exception", "corrupt")


def faults(done: CompletedProcess[str]) -> list[str]:
    """What DumpLogSegments complains of.

    Of every segment that does not begin with offset 0, Kafka's own too, it says that -1 is followed by its first.
    """
    lines = (done.stdout + done.stderr).splitlines()
    found = [line for line in lines if any(fault in line.lower() for fault in _FAULTS)]
    return [line for line in found if not line.startswith("  -1 is followed by")]


@pytest.mark.parametrize("stop", [True, False], ids=["clean stop", "kill -9"])
class TestDumpLogSegments:
    def files(self, folder: Path, *suffixes: str) -> list[Path]:
        found = [path for path in sorted((folder / str(KEY)).iterdir()) if path.suffix in suffixes]
        assert found
        return found

    def test_deep_iteration_finds_every_record_in_order(self, tmp_path: Path, stop: bool) -> None:
        written = write_folder(tmp_path, stop=stop)
        done = dump_log_segments(*self.files(tmp_path, ".log"), deep=True)
        assert done.returncode == 0, done.stderr
        assert not faults(done)
        offsets = [int(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("| offset:")]
        assert offsets == [record.offset for data in written for record in read_records(data)]

    def test_indexes_say_what_the_log_says(self, tmp_path: Path, stop: bool) -> None:
        write_folder(tmp_path, stop=stop)
        files = self.files(tmp_path, ".index", ".timeindex", ".txnindex", ".snapshot")
        assert {path.suffix for path in files} == {".index", ".timeindex", ".txnindex", ".snapshot"}
        for option in ("--deep-iteration", "--verify-index-only"):
            done = tool(
                "org.apache.kafka.tools.DumpLogSegments", option, "--files", ",".join(str(file) for file in files)
            )
            assert done.returncode == 0, done.stderr
            assert not faults(done)

    def test_indexes_are_sane(self, tmp_path: Path, stop: bool) -> None:
        write_folder(tmp_path, stop=stop)
        files = self.files(tmp_path, ".index", ".timeindex")
        done = dump_log_segments(*files, deep=False, index_sanity_check=True)
        assert done.returncode == 0, done.stderr
        passed = {file for file in files if f"{file} passed sanity check" in done.stdout}
        empty = {file for file in files if f"{file} is empty" in done.stdout}
        # The newest entries of the active segment are in memory only: recovery makes them again after a kill.
        active = max(file.stem for file in files)
        assert passed | empty == set(files)
        assert {file.stem for file in empty} <= (set() if stop else {active})

    def test_also_after_we_have_recovered_from_a_kill(self, tmp_path: Path, stop: bool) -> None:
        write_folder(tmp_path, stop=stop)

        async def story(manager: LogManager, env: Env) -> None:
            append(manager.all_logs()[0], batch(), epoch=9)

        with_logs(tmp_path, {KEY: (TOPIC_ID, SETTINGS)}, story)
        done = dump_log_segments(*self.files(tmp_path, ".log", ".index", ".timeindex", ".txnindex", ".snapshot"))
        assert done.returncode == 0, done.stderr
        assert not faults(done)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ApacheKafka]:
    node = ApacheKafka.start(tmp_path / "kafka", free_port())
    yield node
    node.kill()


def consume(bootstrap: str, topic: str, isolation: str) -> list[tuple[int, bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    consumer.assign([At(topic, 0, 0)])
    found: list[tuple[int, bytes | None, bytes | None]] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if (error := message.error()) is not None:
            assert error.name() == "_PARTITION_EOF", error
            break
        found.append((message.offset() or 0, message.key(), message.value()))
    consumer.close()
    return found


@pytest.mark.parametrize("stop", [True, False], ids=["clean stop", "kill -9"])
def test_a_broker_of_apache_kafka_opens_our_folder_and_serves_it(tmp_path: Path, node: ApacheKafka, stop: bool) -> None:
    # given a topic that Kafka has made, and our folder in the place of its own
    ours = tmp_path / "ours"
    written = write_folder(ours, stop=stop, epochs=1)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.create_topics([NewTopic("ours", 1, 1)])["ours"].result(30)
    node.stop()
    theirs = node.data / "ours-0"
    for path in theirs.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in (ours / "ours-0").iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, theirs / path.name)
    if not stop:
        (node.data / ".kafka_cleanshutdown").unlink()

    # when Kafka starts again
    again = ApacheKafka.start(node.directory, free_port())
    try:
        found = {level: consume(again.bootstrap, "ours", level) for level in ("read_uncommitted", "read_committed")}
    finally:
        again.stop()

    # then its clients read everything, and readers of committed data what they should
    records = [
        (record.offset, record.key, record.value)
        for data in written
        if not parse_header(data).is_control
        for record in read_records(data)
    ]
    assert found["read_uncommitted"] == records
    assert found["read_committed"] == committed(written)

    # and what Kafka leaves after its stop is opened by us once more
    async def story(manager: LogManager, env: Env) -> None:
        (log,) = manager.all_logs()
        assert everything(log) == written
        check_indexes(log)
        check_finding(log, every=7)

    shutil.copytree(theirs, tmp_path / "back" / "ours-0")
    with_logs(tmp_path / "back", {KEY: (TOPIC_ID, SETTINGS)}, story)


def committed(batches: list[bytes]) -> list[tuple[int, bytes | None, bytes | None]]:
    """By walking through the markers, without any index."""
    ends: dict[int, list[tuple[int, bool]]] = {}
    for data in batches:
        header = parse_header(data)
        if header.is_control:
            key = read_records(data)[0].key or b""
            ends.setdefault(header.producer_id, []).append((header.base_offset, key[3] == 1))
    kept = []
    for data in batches:
        header = parse_header(data)
        if header.is_control:
            continue
        if header.is_transactional:
            ending = next((end for end in ends[header.producer_id] if end[0] > header.base_offset), None)
            if ending is None:
                break  # still open: the last stable offset
            if not ending[1]:
                continue
        kept += [(record.offset, record.key, record.value) for record in read_records(data)]
    return kept
