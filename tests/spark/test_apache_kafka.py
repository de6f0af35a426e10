"""The source and the sink on Apache Kafka itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.spark import test_foreach_batch, test_write
from tests.spark.test_stream_read import Stream, numbered
from tests.spark.topics import committed, delete_topic, forget_last_commit, grow_topic, new_topic, write

from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import ApacheKafka

pytestmark = pytest.mark.skipif(not apache_kafka.available(), reason="Java or Apache Kafka's jars are not here")

VALUES = [b"%05d" % n for n in range(3000)]
SETTINGS: dict[str, Any] = {
    "offsets_topic_replication_factor": 1,
    "offsets_topic_num_partitions": 2,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "transaction_state_log_num_partitions": 2,
}


@dataclass(frozen=True)
class Kafka:
    address: str


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    running = ApacheKafka.start(tmp_path_factory.mktemp("kafka"), apache_kafka.free_port(), **SETTINGS)
    yield Kafka(running.bootstrap)
    running.stop()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_written_and_read(spark: Any, kafka: Kafka, codec: str) -> None:
    topic = new_topic(kafka, 3)
    frame = spark.createDataFrame([(value, value) for value in VALUES], "key BINARY, value BINARY")
    test_write.save(frame, kafka, topic=topic, delivery="exactly-once", kafka__compression__type=codec)
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", kafka.address).option("subscribe", topic)
    rows = reader.option("isolation", "read_committed").load().collect()
    assert sorted(bytes(row.value) for row in rows) == VALUES
    assert {row.partition for row in rows} == {0, 1, 2}


@pytest.mark.parametrize("way", [test_write.copying, test_foreach_batch.copying], ids=["driver", "executors"])
def test_a_stream_is_copied_exactly_once(spark: Any, kafka: Kafka, tmp_path: Path, way: Any) -> None:
    source, target = new_topic(kafka, 2), new_topic(kafka, 3)
    write(kafka, source, VALUES[:2000], 0)
    write(kafka, source, VALUES[2000:], 1)
    way(spark, kafka, source, target, tmp_path).awaitTermination()
    assert sorted(committed(kafka, target)) == VALUES
    forget_last_commit(tmp_path)
    write(kafka, source, [b"99999"], 0)
    way(spark, kafka, source, target, tmp_path).awaitTermination()
    assert sorted(committed(kafka, target)) == [*VALUES, b"99999"]


def test_topics_that_grow_or_are_made_anew(spark: Any, kafka: Kafka, tmp_path: Path) -> None:
    topic = new_topic(kafka)
    write(kafka, topic, numbered(0, 3))
    strict = Stream(spark, kafka, tmp_path, subscribe=topic, startingOffsets="earliest", kafka__group__id="g")
    strict.run()
    grow_topic(kafka, topic, 2)
    write(kafka, topic, numbered(3, 5), 1)
    strict.run()
    assert strict.values() == numbered(0, 5)
    delete_topic(kafka, topic)
    new_topic(kafka, 2, topic)
    write(kafka, topic, numbered(0, 9))
    with pytest.raises(Exception, match=f"topic {topic} has been deleted and made anew"):
        strict.run()
