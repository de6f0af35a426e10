"""Records tests/golden/kafka-partition/: a partition's folder as Apache Kafka leaves it, and what is in it.

    python tools/record_kafka_partition.py

The folder has what a log can have: several segments, every codec (by librdkafka and by Java), headers, null keys and
values, idempotent batches, committed, aborted and open transactions, one aborted over a roll, leader epochs of several
starts, a prefix deleted to the middle of a batch, and the end that kill -9 leaves: segments beyond the recovery point,
indexes of 10 MB that are zeros behind their entries, a transaction nobody ended.

kafka-partition.tar.xz holds the folder and the checkpoints beside it as they were on disk. manifest.json says what must
be found: it was asked of the living node and of Kafka's tools, not computed here.

Producers expire a day after their last timestamp: a test that expects their state sets its clock to `recorded_at_ms`.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import KAFKA_VERSION, ApacheKafka, Setting

TOPIC = "golden"
GOLDEN = Path(__file__).parent.parent / "tests" / "golden" / "kafka-partition"
CODECS = ("gzip", "snappy", "lz4", "zstd")
SETTINGS: dict[str, Setting] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "log.retention.check.interval.ms": 200,
    "log.initial.task.delay.ms": 500,
    "log.flush.start.offset.checkpoint.interval.ms": 500,
    "replica.high.watermark.checkpoint.interval.ms": 500,
}
TOPIC_CONFIG = {
    "segment.bytes": str(1 << 20),  # Kafka 4 refuses less
    "retention.ms": "-1",
    "file.delete.delay.ms": "100",
}
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "meta.properties",
)
Header = tuple[str, str | bytes | None]


def client(bootstrap: str) -> dict[str, str | int | float | bool]:
    # Quiet: that a node goes away under its clients is the point here.
    return {"bootstrap.servers": bootstrap, "log_level": 0}


class Writer:
    """Produces to the partition; every record differs, and timestamps go two steps forward and one back."""

    def __init__(self, bootstrap: str, first: int, base_ms: int) -> None:
        self.bootstrap = bootstrap
        self.written = first
        self.base_ms = base_ms

    def producer(self, **settings: str | int | bool) -> Producer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        # One flush, one batch: the linger is longer than it takes to hand the records over.
        return Producer({**client(self.bootstrap), "acks": "all", "linger.ms": 200, **named})

    def send(self, producer: Producer, count: int, *, size: int = 40) -> None:
        for _ in range(count):
            number = self.written = self.written + 1
            key = None if number % 5 == 0 else f"key-{number % 7}".encode()
            value = None if number % 11 == 0 else (f"value-{number}-".encode() * (size // 6))[:size]
            headers: list[Header] = [("n", str(number).encode()), ("none", None), ("n", b"")] if number % 3 == 0 else []
            timestamp = self.base_ms + 1000 * (number + (2 if number % 2 else -2))
            producer.produce(
                TOPIC, partition=0, key=key, value=value, headers=headers, timestamp=timestamp, on_delivery=_delivered
            )
        if producer.flush(30):
            raise RuntimeError("some records were not acknowledged within 30 s")

    def fill(self, kilobytes: int) -> None:
        """Plain batches of one record of 32 KB, for rolls and index entries."""
        producer = self.producer(batch_num_messages=1)
        self.send(producer, kilobytes // 32, size=32 << 10)

    def send_by_java(self, codec: str, count: int) -> None:
        """Kafka's own client frames snappy, lz4 and zstd in ways of its own. It is idempotent by default."""
        lines = "".join(f"from:java,codec:{codec}\tjava-{i}\t{codec} {i} {'x' * 50}\n" for i in range(count))
        done = apache_kafka.tool(
            "org.apache.kafka.tools.ConsoleProducer",
            *("--bootstrap-server", self.bootstrap, "--topic", TOPIC, "--compression-codec", codec),
            *("--command-property", "linger.ms=500"),
            *("--reader-property", "parse.headers=true", "--reader-property", "parse.key=true"),
            stdin=lines,
        )
        if done.returncode != 0:
            raise RuntimeError(f"Kafka's ConsoleProducer failed:\n{done.stderr}")

    def transactional(self, name: str, **settings: str | int | bool) -> Producer:
        producer = self.producer(transactional_id=name, **settings)
        producer.init_transactions(30)
        return producer


def _delivered(error: object, _message: object) -> None:
    if error is not None:
        raise RuntimeError(f"a record was not acknowledged: {error}")


def write_first_epoch(writer: Writer) -> None:
    writer.fill(2300)
    for codec in CODECS:
        writer.send(writer.producer(compression_type=codec), 25)


def write_idempotent_and_transactions(writer: Writer) -> None:
    for codec in ("none", *CODECS):
        writer.send_by_java(codec, 15)
    idempotent = writer.producer(enable_idempotence=True)
    for _ in range(7):  # more than the five batches that a producer's state remembers
        writer.send(idempotent, 3)
    committed, aborted = writer.transactional("committed"), writer.transactional("aborted", compression_type="lz4")
    committed.begin_transaction()
    writer.send(committed, 6)
    committed.commit_transaction(30)
    aborted.begin_transaction()
    writer.send(aborted, 6)
    writer.fill(1100)  # a roll between the transaction's records and its end
    writer.send(aborted, 2)
    aborted.abort_transaction(30)
    writer.send(writer.producer(), 4)


def write_interleaved_transactions(writer: Writer) -> None:
    # The ids of before: the coordinator raises their epoch.
    committed, aborted = writer.transactional("committed", compression_type="zstd"), writer.transactional("aborted")
    for _ in range(2):
        committed.begin_transaction()
        aborted.begin_transaction()
        for _ in range(3):
            writer.send(committed, 2)
            writer.send(aborted, 2)
        aborted.abort_transaction(30)
        writer.send(committed, 1)
        committed.commit_transaction(30)
    writer.fill(300)


def write_last_epoch(writer: Writer) -> Producer:
    """Beyond the recovery point: a roll, every codec, and a transaction that stays open. The caller holds on to it."""
    writer.fill(1200)
    for codec in CODECS:
        writer.send(writer.producer(compression_type=codec, enable_idempotence=True), 8)
    aborted = writer.transactional("aborted-at-the-end")
    aborted.begin_transaction()
    writer.send(aborted, 3)
    aborted.abort_transaction(30)
    left_open = writer.transactional("open", transaction_timeout_ms=900_000)
    left_open.begin_transaction()
    writer.send(left_open, 3)
    writer.send(writer.producer(), 5)
    return left_open


def delete_prefix(node: ApacheKafka) -> None:
    """To the middle of the first compressed batch; waits until the segments before it are gone."""
    before = next(b for b in batches(node) if b["codec"] == "gzip")["base_offset"] + 7
    admin = AdminClient(client(node.bootstrap))
    for future in admin.delete_records([TopicPartition(TOPIC, 0, before)]).values():
        future.result(timeout=30)
    checkpoint = node.data / "log-start-offset-checkpoint"
    wait_for(lambda: f"{TOPIC} 0 {before}" in checkpoint.read_text(), "the log start offset's checkpoint")
    wait_for(lambda: not (folder(node) / f"{0:020}.log").exists(), "the deletion of the first segments")
    wait_for(lambda: not list(folder(node).glob("*.deleted")), "the removal of the deleted files")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Kafka did not come to {what} within 30 s")
        time.sleep(0.05)


def folder(node: ApacheKafka) -> Path:
    return node.data / f"{TOPIC}-0"


def batches(node: ApacheKafka) -> list[dict[str, Any]]:
    """Every batch of the files, by DumpLogSegments."""
    text = apache_kafka.dump_log_segments(*sorted(folder(node).glob("*.log")), deep=False).stdout
    pattern = re.compile(r"(\w+): (\S+)")
    found, segment = [], 0
    for line in text.splitlines():
        if match := re.match(r"Dumping .*?(\d{20})\.log", line):
            segment = int(match[1])
        if line.startswith("baseOffset:"):
            values = dict(pattern.findall(line))
            found.append(
                {
                    "segment": segment,
                    "position": int(values["position"]),
                    "size": int(values["size"]),
                    "base_offset": int(values["baseOffset"]),
                    "last_offset": int(values["lastOffset"]),
                    "count": int(values["count"]),
                    "base_sequence": int(values["baseSequence"]),
                    "producer_id": int(values["producerId"]),
                    "producer_epoch": int(values["producerEpoch"]),
                    "leader_epoch": int(values["partitionLeaderEpoch"]),
                    "transactional": values["isTransactional"] == "true",
                    "control": values["isControl"] == "true",
                    "max_timestamp": int(values["CreateTime"]),
                    "codec": values["compresscodec"],
                    "crc": int(values["crc"]),
                    "valid": values["isvalid"] == "true",
                }
            )
    return found


def consumer(node: ApacheKafka, level: str) -> Consumer:
    return Consumer(
        {
            **client(node.bootstrap),
            "group.id": "recorder",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
        }
    )


def records(node: ApacheKafka, start: int, end: int, level: str) -> dict[int, dict[str, Any]]:
    """What a consumer gets between two offsets."""
    reader = consumer(node, level)
    reader.assign([TopicPartition(TOPIC, 0, start)])
    found: dict[int, dict[str, Any]] = {}
    while True:
        message = reader.poll(30)
        if message is None:
            raise TimeoutError(f"no more records and no end of the partition within 30 s ({level})")
        if message.error() is not None:
            break  # the end of what this level may see
        offset, key, value = message.offset(), message.key(), message.value()
        if offset is None or offset >= end:
            raise RuntimeError(f"a record at offset {offset}, though the log ends at {end}: somebody else writes to it")
        found[offset] = {
            "offset": offset,
            "timestamp": message.timestamp()[1],
            "key": None if key is None else _bytes(key).decode(),
            "value_size": None if value is None else len(_bytes(value)),
            "value_sha256": None if value is None else hashlib.sha256(_bytes(value)).hexdigest(),
            "headers": [[h[0], None if h[1] is None else _bytes(h[1]).decode()] for h in message.headers() or []],
        }
    reader.close()
    return found


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def watermarks(node: ApacheKafka, level: str) -> tuple[int, int]:
    """The log's start, and the end of what a level may see."""
    asking = consumer(node, level)
    found = asking.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=30)
    asking.close()
    if found is None:
        raise TimeoutError("Kafka did not list the partition's offsets within 30 s")
    low, high = found
    return int(low), int(high)


def producers(node: ApacheKafka) -> list[dict[str, int | None]]:
    """The states of the producers in the living node."""
    done = apache_kafka.tool(
        "org.apache.kafka.tools.TransactionsCommand",
        *("--bootstrap-server", node.bootstrap, "describe-producers", "--topic", TOPIC, "--partition", "0"),
    )
    names = (
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "last_sequence",
        "last_timestamp",
        "open_from_offset",
    )
    found = []
    for line in done.stdout.splitlines():
        cells = line.split()
        if len(cells) == len(names) and cells[0].isdigit():
            found.append({n: int(c) if c.lstrip("-").isdigit() else None for n, c in zip(names, cells, strict=True)})
    if not found:
        raise RuntimeError(f"Kafka described no producers:\n{done.stdout}{done.stderr}")
    return sorted(found, key=lambda state: state["producer_id"] or 0)


def aborted_transactions(node: ApacheKafka) -> list[dict[str, int]]:
    """The entries of the .txnindex files."""
    files = [file for file in sorted(folder(node).glob("*.txnindex")) if file.stat().st_size]
    text = apache_kafka.dump_log_segments(*files, deep=False).stdout
    pattern = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    return [dict(zip(names, map(int, match.groups()), strict=True)) for match in re.finditer(pattern, text)]


def epochs(node: ApacheKafka) -> list[list[int]]:
    lines = (folder(node) / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    return [[int(number) for number in line.split()] for line in lines]


def topic_id(node: ApacheKafka) -> str:
    return (folder(node) / "partition.metadata").read_text().split("topic_id: ")[1].strip()


def ask_living_node(node: ApacheKafka) -> dict[str, Any]:
    start, end = watermarks(node, "read_uncommitted")
    _, stable = watermarks(node, "read_committed")
    everything = records(node, start, end, "read_uncommitted")
    committed = records(node, start, end, "read_committed")
    return {
        "log_start_offset": start,
        "last_stable_offset": stable,
        "log_end_offset": end,
        "producers": producers(node),
        "records": [
            {**record, "aborted": number < stable and number not in committed}
            for number, record in sorted(everything.items())
        ],
    }


def ask_files(node: ApacheKafka) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "topic_id": topic_id(node),
        "segments": [int(file.stem) for file in sorted(folder(node).glob("*.log"))],
        "epochs": epochs(node),
        "aborted_transactions": aborted_transactions(node),
        "batches": batches(node),
    }


def pack(node: ApacheKafka, target: Path) -> None:
    """Only what a partition and its log dir consist of; owners and times of the recording machine are left out."""
    with tarfile.open(target, "w:xz", preset=9) as archive:
        files = [node.data / name for name in CHECKPOINTS] + sorted(folder(node).iterdir())
        for file in files:
            content = file.read_bytes()
            entry = tarfile.TarInfo(str(file.relative_to(node.data)))
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))


def check(manifest: dict[str, Any]) -> None:
    """That the recording has what it is for; a run that missed something must not replace a good one."""
    found = manifest["batches"]
    assert {batch["codec"] for batch in found} == {"none", *CODECS}
    assert all(batch["valid"] for batch in found)
    assert any(batch["transactional"] and batch["control"] for batch in found)
    assert any(batch["producer_id"] >= 0 and not batch["transactional"] for batch in found)
    assert len(manifest["epochs"]) >= 3, manifest["epochs"]
    assert len(manifest["segments"]) >= 3 and manifest["segments"][0] > 0, manifest["segments"]
    assert found[0]["base_offset"] < manifest["log_start_offset"], "the prefix was not deleted inside a segment"
    assert any(batch["base_offset"] < manifest["log_start_offset"] <= batch["last_offset"] for batch in found), (
        "the prefix does not end in the middle of a batch"
    )
    assert len(manifest["aborted_transactions"]) >= 3, manifest["aborted_transactions"]
    assert any(record["aborted"] for record in manifest["records"])
    assert manifest["last_stable_offset"] < manifest["log_end_offset"]
    assert any(record["key"] is None for record in manifest["records"])
    assert any(record["value_size"] is None for record in manifest["records"])
    assert any(state["open_from_offset"] is not None for state in manifest["producers"])


def record(work: Path) -> None:
    port = apache_kafka.free_port()
    base_ms = int(time.time() * 1000) - 3_600_000
    written = 0
    steps = (write_first_epoch, write_idempotent_and_transactions, write_interleaved_transactions)
    node = ApacheKafka.start(work, port, wait=True, **SETTINGS)
    try:
        topic = NewTopic(TOPIC, num_partitions=1, replication_factor=1, config=TOPIC_CONFIG)
        admin = AdminClient(client(node.bootstrap))
        admin.create_topics([topic])[TOPIC].result(timeout=30)
        for step in steps:
            writer = Writer(node.bootstrap, written, base_ms)
            step(writer)
            written = writer.written
            print(f"{step.__name__}: {written} records so far", flush=True)
            node.stop()
            node = ApacheKafka.start(work, port, wait=True, **SETTINGS)
        delete_prefix(node)
        left_open = write_last_epoch(Writer(node.bootstrap, written, base_ms))
        manifest: dict[str, Any] = {
            "recorded_with": f"Apache Kafka {KAFKA_VERSION}",
            "recorded_at_ms": int(time.time() * 1000),
            **ask_living_node(node),
        }
    finally:
        node.kill()
    del left_open  # not before the kill: leaving, it would end its transaction
    manifest |= ask_files(node)
    check(manifest)
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir(parents=True)
    pack(node, GOLDEN / "kafka-partition.tar.xz")
    (GOLDEN / "manifest.json").write_text(compact_json(manifest))
    for file in sorted(GOLDEN.iterdir()):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


def compact_json(manifest: dict[str, Any]) -> str:
    """One line for each record and batch: a diff of two recordings stays readable."""
    parts = []
    for name, value in manifest.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(json.dumps(item) for item in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f' "{name}": {text}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    try:
        apache_kafka.bring_jars()
    except apache_kafka.ApacheKafkaUnavailableError as error:
        print(f"record_kafka_partition: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ottla-golden-") as work:
        record(Path(work))
    return 0


if __name__ == "__main__":
    sys.exit(main())
