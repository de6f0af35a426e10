"""Storage APIs and topic configs that change what is stored: the same questions to Apache Kafka and to this node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask, create, list_offset, topic_to_create
from tests.waiting import attempts

from ottla.model.errors import ErrorCode
from ottla.record.batch import Codec, parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record
from ottla.testing import apache_kafka
from ottla.testing.node import running_node
from ottla.wire.client import ConnectionFailed

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]

SOON = timedelta(seconds=60)
NOW = int(time.time() * 1000)
HOUR = 3_600_000
CODECS = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]


class Side(NamedTuple):
    address: str
    dirs: tuple[str, str]


class Both(NamedTuple):
    kafka: Side
    ottla: Side


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    folders = {side: tmp_path_factory.mktemp(side) for side in ("kafka", "ottla")}
    dirs = {side: (str(folder / "one"), str(folder / "two")) for side, folder in folders.items()}
    kafka = apache_kafka.ApacheKafka.start(folders["kafka"], apache_kafka.free_port(), log_dirs=",".join(dirs["kafka"]))
    try:
        with running_node(Path(dirs["ottla"][0]), log_dirs=",".join(dirs["ottla"])) as ottla:
            both = Both(Side(kafka.bootstrap, dirs["kafka"]), Side(ottla.address, dirs["ottla"]))
            for side in both:
                _fill(side.address)
            yield both
    finally:
        kafka.stop()


TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "compacted-too": {"cleanup.policy": "compact,delete"},
    "empty": {},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "recent": {"message.timestamp.before.max.ms": str(HOUR), "message.timestamp.after.max.ms": "1000"},
    "small": {"max.message.bytes": "200"},
    "needs-two": {"min.insync.replicas": "2"},
    **{f"codec-{codec}": {"compression.type": codec} for codec in CODECS},
    "small-and-plain": {"compression.type": "uncompressed", "max.message.bytes": "2000"},
}


def _fill(address: str) -> None:
    created = create(address, *(topic_to_create(name, configs=configs) for name, configs in TOPICS.items()))
    assert {topic.error_code for topic in created.topics} == {ErrorCode.none}
    for name in TOPICS:
        for _ in attempts(name):
            if list_offset(address, name, -1).error_code is ErrorCode.none:
                break
    for name in ("plain", "compacted", "compacted-too", "append-time"):
        for timestamps in ([NOW, NOW + 5], [NOW + 30, NOW + 20, NOW + 30]):
            assert produce(address, name, timestamps)[0] is ErrorCode.none


def produce(
    address: str, topic: str, timestamps: list[int], *, key: bytes | None = b"k", codec: Codec = Codec.NONE,
    size: int = 5, version: int = 9, acks: int = -1,
) -> tuple[Any, ...]:  # fmt: skip
    batch = build_batch([Record(key, b"v" * size, timestamp) for timestamp in timestamps], codec=codec)
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(address, asking.PRODUCE, version, acks=acks, timeout=SOON, transactional_id=None, topic_data=topics)
    row = answer.responses[0].partition_responses[0]
    return row.error_code, [error.batch_index for error in row.record_errors]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets(both: Both, version: int) -> None:
    def answers(address: str) -> list[Any]:
        found = []
        for topic in ("plain", "empty", "append-time", "absent"):
            for asked in (-1, -2, -3, -4, -5, -6, -7, NOW, NOW + 6, NOW + 25, NOW + 31, 0):
                if topic == "append-time" and (asked >= 0 or asked == -3):
                    continue
                for isolation in (0, 1):
                    row = list_offset(address, topic, asked, version=version, isolation_level=isolation)
                    told = getattr(row, "leader_epoch", None)
                    found.append((topic, asked, isolation, row.error_code, row.offset, row.timestamp, told))
        return found

    assert answers(both.ottla.address) == answers(both.kafka.address)


@pytest.mark.parametrize("version", range(3))
def test_delete_records(both: Both, version: int) -> None:
    def answers(address: str) -> list[Any]:
        found = []
        for topic, number, offset in (
            ("plain", 0, 2), ("plain", 0, 1), ("plain", 0, 6), ("plain", 0, -2), ("plain", 7, 0), ("absent", 0, 0),
            ("compacted", 0, 1), ("compacted-too", 0, 1), ("empty", 0, 0), ("empty", 0, -1), ("empty", 0, 1),
        ):  # fmt: skip
            topics = [{"name": topic, "partitions": [{"partition_index": number, "offset": offset}]}]
            answer = ask(address, asking.DELETE_RECORDS, version, topics=topics, timeout=SOON)
            row = answer.topics[0].partitions[0]
            found.append((topic, number, offset, row.error_code, row.low_watermark))
        return found

    assert answers(both.ottla.address) == answers(both.kafka.address)


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs(both: Both, version: int) -> None:
    def answers(side: Side) -> list[Any]:
        found = []
        for topics in ([], [{"topic": "empty", "partitions": [0, 4]}], [{"topic": "absent", "partitions": [0]}]):
            answer = ask(side.address, asking.DESCRIBE_LOG_DIRS, version, topics=topics)
            assert {result.log_dir for result in answer.results} == set(side.dirs)
            rows = [
                (topic.name, row.partition_index, row.partition_size, row.offset_lag, row.is_future_key)
                for result in answer.results for topic in result.topics for row in topic.partitions
            ]  # fmt: skip
            codes = [result.error_code for result in answer.results]
            spaces = [getattr(result, "total_bytes", None) for result in answer.results]
            found.append((getattr(answer, "error_code", None), codes, rows, spaces))
        return found

    assert answers(both.ottla) == answers(both.kafka)


def test_alter_replica_log_dirs(both: Both) -> None:
    def answers(side: Side) -> list[Any]:
        found: list[Any] = []
        for topic, number, path in (
            ("empty", 0, "/nowhere"), ("empty", 0, "relative"), ("absent", 0, side.dirs[0]), ("empty", 9, side.dirs[0]),
            ("t" * 249, 0, side.dirs[0]), ("plain", 0, side.dirs[0]), ("plain", 0, side.dirs[1]),
        ):  # fmt: skip
            dirs = [{"path": path, "topics": [{"name": topic, "partitions": [number]}]}]
            answer = ask(side.address, asking.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs)
            found.append(answer.results[0].partitions[0].error_code)
        wanted = [{"topic": "plain", "partitions": [0]}]
        for _ in attempts():
            results = ask(side.address, asking.DESCRIBE_LOG_DIRS, 4, topics=wanted).results
            rows = [(result.log_dir, row.is_future_key) for result in results for t in result.topics
                    for row in t.partitions]  # fmt: skip
            if rows == [(side.dirs[1], False)]:
                break
        return [*found, [(side.dirs.index(path), is_future) for path, is_future in rows]]

    assert answers(both.ottla) == answers(both.kafka)


CASES: list[tuple[str, dict[str, Any]]] = [
    ("recent", {"timestamps": [NOW]}),
    ("recent", {"timestamps": [NOW - 2 * HOUR]}),
    ("recent", {"timestamps": [NOW, NOW - 2 * HOUR, NOW]}),
    ("recent", {"timestamps": [NOW + HOUR]}),
    ("recent", {"timestamps": [NOW, NOW + HOUR]}),
    ("recent", {"timestamps": [NOW, NOW - 2 * HOUR, NOW], "codec": Codec.GZIP}),
    ("plain", {"timestamps": [NOW + 2 * HOUR]}),
    ("plain", {"timestamps": [0]}),
    ("append-time", {"timestamps": [0, NOW + 2 * HOUR]}),
    ("small", {"timestamps": [NOW], "size": 20}),
    ("small", {"timestamps": [NOW], "size": 200}),
    ("needs-two", {"timestamps": [NOW]}),
    ("needs-two", {"timestamps": [NOW], "acks": 1}),
    ("compacted", {"timestamps": [NOW, NOW], "key": None}),
    ("small-and-plain", {"timestamps": [NOW] * 3, "size": 5000, "codec": Codec.GZIP}),
    ("small-and-plain", {"timestamps": [NOW] * 3, "size": 500, "codec": Codec.GZIP}),
]


@pytest.mark.parametrize(("topic", "values"), CASES)
def test_what_is_taken_and_what_is_refused(both: Both, topic: str, values: dict[str, Any]) -> None:
    assert produce(both.ottla.address, topic, **values) == produce(both.kafka.address, topic, **values)


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_stored(both: Both, codec: str, source: Codec) -> None:
    """The batch that a consumer gets: its codec and its records."""
    topic = f"codec-{codec}"

    def stored(address: str) -> Any:
        offset = list_offset(address, topic, -1).offset
        assert produce(address, topic, [NOW, NOW + 1, NOW + 2], codec=source, size=300)[0] is ErrorCode.none
        row = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        values = {
            "replica_id": -1, "max_wait": timedelta(seconds=1), "min_bytes": 1, "max_bytes": 1 << 20,
            "isolation_level": 0, "topics": [{"topic": topic, "partitions": [row]}], "forgotten_topics_data": [],
        }  # fmt: skip
        codes: list[ErrorCode | None] = []
        for version in (4, 9, 10, 12):
            try:
                (answered,) = ask(address, asking.FETCH, version, **values).responses[0].partitions
            except ConnectionFailed:
                codes.append(None)
                continue
            codes.append(answered.error_code)
        header = parse_header(answered.records)
        records = [(record.key, record.value, record.timestamp) for record in read_records(answered.records)]
        return header.codec, header.base_timestamp, header.max_timestamp, header.record_count, records, codes

    assert stored(both.ottla.address) == stored(both.kafka.address)
