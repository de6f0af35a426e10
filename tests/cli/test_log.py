"""`ottla log dump` and `ottla log verify`, over the folder that Apache Kafka wrote and over our own."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.cli.command import run_ottla

from ottla.cli.main import cli
from ottla.model.errors import OttlaError
from ottla.record.batch import Codec, computed_crc
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.apache_kafka import ApacheKafka, dump_log_segments
from ottla.testing.node import running_node

GOLDEN = Path(__file__).parents[1] / "golden"
FIRST, SECOND, LAST = "00000000000000000068", "00000000000000000311", "00000000000000000382"


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """A log dir of Apache Kafka's with one partition."""
    with tarfile.open(GOLDEN / "kafka-partition" / "kafka-partition.tar.xz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def ottla(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args], catch_exceptions=False)


def items(*args: str | Path) -> list[dict[str, Any]]:
    done = ottla("log", "dump", *args, "-O", "json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def problems(path: Path, *args: str) -> list[dict[str, Any]]:
    done = ottla("log", "verify", path, "-O", "json", *args)
    found = [problem for report in json.loads(done.stdout) for problem in report["problems"]]
    assert done.exit_code == (1 if any(problem["serious"] for problem in found) else 0)
    return found


def content_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


# -- dump


def test_every_record_is_dumped(golden: Path) -> None:
    manifest = json.loads((GOLDEN / "kafka-partition" / "manifest.json").read_text())
    records = {
        record["offset"]: record
        for item in items(golden / "golden-0", "--from-offset", str(manifest["log_start_offset"]))
        for record in item.get("content", ())
        if "control" not in record
    }
    for known in manifest["records"]:
        dumped = records[known["offset"]]
        assert (dumped["timestamp"], dumped["key"]) == (known["timestamp"], known["key"])
        assert dumped.get("headers", []) == [part for pair in known["headers"] for part in pair]


def test_everything_else_in_a_folder_is_dumped(golden: Path) -> None:
    found = items(golden, "--batches", "--indexes")
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for item in found:
        by_kind.setdefault(item["kind"], []).append(item)
    assert {item["compression"] for item in by_kind["segment"]} == {codec.name.lower() for codec in Codec}
    assert all(item["crc"] == "ok" and "content" not in item for item in by_kind["segment"])
    assert by_kind["offset index"][0]["entries"][0] == {"offset": 69, "position": 32859}
    assert by_kind["time index"][0]["entries"][0] == {"timestamp": 1794753264982, "offset": 68}
    aborted = [entry for item in by_kind["aborted transactions"] for entry in item["entries"]]
    assert [entry["last_offset"] for entry in aborted] == [316, 334, 349, 432]
    producers = {entry["producer_id"]: entry for entry in by_kind["producer snapshot"][-1]["entries"]}
    assert producers[6] == {
        "producer_id": 6, "epoch": 1, "last_sequence": 13, "last_offset": 348, "last_timestamp": 1794756810591,
        "coordinator_epoch": 2, "transaction_began_at": None,
    }  # fmt: skip
    assert by_kind["leader epochs"][0]["entries"][1] == {"epoch": 2, "start_offset": 171}
    assert by_kind["offsets by partition"][0]["entries"] == [{"topic": "golden", "partition": 0, "offset": 78}]
    assert by_kind["meta.properties"][0]["entries"][0]["node_id"] == 1


def test_text_yaml_and_limits(golden: Path) -> None:
    segment = golden / "golden-0" / f"{SECOND}.log"
    text = ottla("log", "dump", segment).output
    assert "316..316, at 98689, 78 bytes, 1 record" in text and "abort  coordinator_epoch=0" in text
    assert "... (32768)" in text and "... (" not in ottla("log", "dump", segment, "--whole").output
    assert len(items(segment, "-n", "3")) == 3
    assert len(yaml.safe_load(ottla("log", "dump", segment, "-O", "yaml", "-n", "2").output)) == 2


@pytest.mark.parametrize(
    ("name", "as_name"),
    [
        ("kafka-4.3.0-cluster-metadata.log", "__cluster_metadata-0/00000000000000000000.log"),
        ("kafka-4.3.0-bootstrap.checkpoint", "bootstrap.checkpoint"),
    ],
)
def test_metadata_is_shown_by_its_fields(tmp_path: Path, name: str, as_name: str) -> None:
    file = tmp_path / as_name
    file.parent.mkdir(exist_ok=True)
    shutil.copy(GOLDEN / name, file)
    records = [record for item in items(file) for record in item["content"]]
    assert {"name": "metadata.version", "feature_level": 30} in [record.get("fields") for record in records]
    assert not [record for record in records if "unreadable" in record]
    assert "FeatureLevelRecord v0  name=metadata.version  feature_level=30" in ottla("log", "dump", file).output
    assert not [problem for problem in problems(file) if problem["serious"]]


def test_what_is_no_log_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for path, complaint in ((tmp_path / "notes.txt", "is no file of a log"), (tmp_path, "there are no files of a log")):
        done = run_ottla("log", "dump", str(path))
        assert done.returncode == 1 and complaint in done.stderr and done.stderr.count("\n") == 1


# -- verify


def test_a_folder_of_apache_kafka_is_in_order_and_is_left_as_it_was(golden: Path) -> None:
    before = content_of(golden)
    assert problems(golden) == []
    assert problems(golden, "--shallow") == []
    ottla("log", "dump", golden)
    assert content_of(golden) == before
    assert (
        "golden-0: 3 segments, 131 batches, 373 records, offsets 68 to 440, in order"
        in ottla("log", "verify", golden).output
    )


def test_files_that_may_only_be_read_are_enough(golden: Path) -> None:
    for path in golden.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert problems(golden) == []
    (golden / "golden-0").chmod(0o755)


def test_the_folder_of_a_node_is_in_order_while_it_runs_and_after(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        for _ in range(3):
            assert run_ottla("produce", "t", *map(str, range(50)), address=node.address).returncode == 0
        assert problems(tmp_path) == []
        values = [record["value"] for item in items(tmp_path / "t-0") for record in item.get("content", ())]
        assert values == [str(i) for i in range(50)] * 3
    assert problems(tmp_path) == []


Damage = Callable[[Path], object]


def flip(name: str, position: int) -> Damage:
    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[position] ^= 0xFF
        (folder / name).write_bytes(data)

    return damage


def cut(name: str, size: int) -> Damage:
    return lambda folder: os.truncate(folder / name, size if size > 0 else (folder / name).stat().st_size + size)


def append(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + data)


def replace(name: str, data: bytes) -> Damage:
    return lambda folder: (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "name", "what", "advice"),
    [
        (flip(f"{FIRST}.log", 32859 + 100), f"{FIRST}.log", "the checksum is wrong", "from another replica"),
        (flip(f"{FIRST}.log", 3), f"{FIRST}.log", "too far from the segment", "from another replica"),
        (flip(f"{FIRST}.log", 32859 + 16), f"{FIRST}.log", "bytes that are no batch", "from another replica"),
        (cut(f"{SECOND}.log", -10), f"{SECOND}.log", "only half written", "from another replica"),
        (append(f"{SECOND}.log", bytes(100)), f"{SECOND}.log", "zeros", "from another replica"),
        (flip(f"{FIRST}.index", 8 * 5 + 7), f"{FIRST}.index", "no batch begins at", "remove the file"),
        (flip(f"{FIRST}.index", 8 * 5 + 3), f"{FIRST}.index", "comes after 280 at 138324", "remove the file"),
        (cut(f"{FIRST}.index", -3), f"{FIRST}.index", "no whole entries", "remove the file"),
        (append(f"{FIRST}.index", bytes(80)), f"{FIRST}.index", "empty entries", "remove the file"),
        (cut(f"{FIRST}.timeindex", -12), f"{FIRST}.timeindex", "retention goes by it", "remove the file"),
        (flip(f"{FIRST}.timeindex", 7), f"{FIRST}.timeindex", "has the time", "remove the file"),
        (flip(f"{SECOND}.txnindex", 9), f"{SECOND}.txnindex", "there is no abort of producer", "remove the file"),
        (cut(f"{SECOND}.txnindex", 33), f"{SECOND}.txnindex", "does not hold whole entries", "remove the file"),
        (flip(f"{LAST}.snapshot", 20), f"{LAST}.snapshot", "checksum", "remove the file"),
        (replace("leader-epoch-checkpoint", b"0\n1\n0 78\n"), "leader-epoch-checkpoint", "the batch there says 2", ""),
        (replace("leader-epoch-checkpoint", b"0\n3\n0 78\n"), "leader-epoch-checkpoint", "as many lines", "restore"),
        (replace("partition.metadata", b"version: 0\n"), "partition.metadata", "no readable topic_id", "restore"),
    ],
)
def test_damage_is_found_and_told_with_what_to_do(
    golden: Path, damage: Damage, name: str, what: str, advice: str
) -> None:
    folder = golden / "golden-0"
    damage(folder)
    (found,) = [problem for problem in problems(folder) if problem["serious"]]
    assert found["file"] == str(folder / name)
    assert what in found["problem"] and advice in found["advice"]
    text = run_ottla("log", "verify", str(folder))
    assert text.returncode == 1 and text.stderr == "ottla: 1 problem found.\n"
    assert name in text.stdout and found["problem"] in text.stdout and found["advice"] in text.stdout


def test_half_a_batch_at_the_end_is_a_remark_only(golden: Path) -> None:
    os.truncate(golden / "golden-0" / f"{LAST}.log", (golden / "golden-0" / f"{LAST}.log").stat().st_size - 5)
    found = problems(golden)
    assert all(not problem["serious"] for problem in found)
    assert any("only half" in problem["problem"] and "may be writing" in problem["advice"] for problem in found)
    assert any(problem["problem"] == "golden-0 is at 441, its log ends at 436" for problem in found)  # a checkpoint


def test_a_missing_segment_is_a_remark_since_the_topic_may_be_compacted(golden: Path) -> None:
    for path in (golden / "golden-0").glob(f"{SECOND}.*"):
        path.unlink()
    (found,) = problems(golden / "golden-0")
    assert found["problem"] == "offsets 311 to 381 are not there" and not found["serious"]


def test_wrong_records_under_a_right_checksum_are_found_unless_only_headers_are_looked_at(tmp_path: Path) -> None:
    batch = bytearray(build_batch([Record(b"k", b"v", 1000), Record(b"k", b"w", 2000)]))
    batch[35:43] = (9999).to_bytes(8, "big")  # the largest timestamp
    batch[17:21] = computed_crc(batch).to_bytes(4, "big")
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(batch)
    (found,) = problems(folder)
    assert found["problem"] == "the newest record is of 2000, the header says 9999"
    assert problems(folder, "--shallow") == []


def test_no_damage_is_too_odd_to_be_told(golden: Path) -> None:
    """A byte here and there, and cuts: problems or not, never a crash."""
    random = Random(7)
    (golden / "__cluster_metadata-0").mkdir()
    shutil.copy(GOLDEN / "kafka-4.3.0-cluster-metadata.log", golden / "__cluster_metadata-0" / f"{0:020}.log")
    shutil.copy(GOLDEN / "kafka-4.3.0-quorum-state", golden / "__cluster_metadata-0" / "quorum-state")
    shutil.copy(GOLDEN / "kafka-4.3.0-bootstrap.checkpoint", golden / "bootstrap.checkpoint")
    files = sorted(path for path in golden.rglob("*") if path.is_file())
    for _ in range(200):
        file = random.choice(files)
        before = file.read_bytes()
        data = bytearray(before)
        for _ in range(random.choice((1, 1, 3))):
            if data:
                data[random.randrange(min(len(data), random.choice((100, 1 << 20))))] = random.randrange(256)
        if random.random() < 0.2:
            del data[random.randrange(len(data) + 1) :]
        file.write_bytes(data)
        if file.suffix == ".log" and random.random() < 0.7:
            _mend_checksums(file)
        for command in ("verify", "dump"):
            done = CliRunner().invoke(cli, ["log", command, str(file), "-O", "json"])
            assert done.exception is None or isinstance(done.exception, OttlaError | SystemExit), (file, done.exception)
        file.write_bytes(before)


def _mend_checksums(file: Path) -> None:
    """So that it is the records that are wrong."""
    data = bytearray(file.read_bytes())
    position = 0
    while position + 61 <= len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        if not 61 <= size <= len(data) - position:
            break
        batch = data[position : position + size]
        data[position + 17 : position + 21] = computed_crc(batch).to_bytes(4, "big")
        position += size
    file.write_bytes(data)


@pytest.mark.kafka
def test_apache_kafkas_tool_dumps_the_same_batches(golden: Path) -> None:
    segment = golden / "golden-0" / f"{FIRST}.log"
    theirs = [line for line in dump_log_segments(segment, deep=False).stdout.splitlines() if "baseOffset:" in line]
    ours = items(segment, "--batches")
    assert len(ours) == len(theirs)
    for item, line in zip(ours, theirs, strict=True):
        for part in (
            f"baseOffset: {item['batch']} lastOffset: {item['last_offset']} count: {item['records']} ",
            f"position: {item['position']} ",
            f"size: {item['size']} ",
            f"compresscodec: {item['compression']} ",
            f"partitionLeaderEpoch: {item['leader_epoch']} ",
        ):
            assert part in line


@pytest.mark.kafka
def test_the_folder_of_a_running_apache_kafka_is_in_order(kafka: ApacheKafka) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        sent = run_ottla("produce", "verified", "-z", codec, *map(str, range(20)), address=kafka.bootstrap)
        assert sent.returncode == 0, sent.stderr
    assert not [problem for problem in problems(kafka.data) if problem["serious"]]
    metadata = items(kafka.data / "__cluster_metadata-0")
    records = [record for item in metadata for record in item.get("content", ())]
    assert "verified" in [record["fields"]["name"] for record in records if record.get("type") == "TopicRecord"]
    assert not [record for record in records if "unreadable" in record]
