"""Streaming queries over a real node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from tests.spark.topics import Broker, delete_records, delete_topic, grow_topic, new_topic, write
from tests.waiting import until

from ottla.testing.node import RunningNode


class Stream:
    """A query that puts what it reads into Parquet files, which it may be started for again and again."""

    def __init__(self, spark: Any, node: Broker, folder: Path, **options: Any) -> None:
        self._spark, self._node, self._folder = spark, node, folder
        self._options = options

    def start(self, **trigger: Any) -> Any:
        reader = self._spark.readStream.format("ottla").option("kafka.bootstrap.servers", self._node.address)
        for name, value in self._options.items():
            reader = reader.option(name.replace("__", "."), value)
        writer = reader.load().select("partition", "offset", "value").writeStream.format("parquet")
        writer = writer.option("path", str(self._folder / "out"))
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(self) -> Any:
        """All that is there now, and gives the query that has ended."""
        query = self.start(availableNow=True)
        query.awaitTermination()
        return query

    @contextmanager
    def running(self, **trigger: Any) -> Iterator[Any]:
        query = self.start(**trigger)
        try:
            yield query
        finally:
            query.stop()

    def values(self) -> list[bytes]:
        out = self._folder / "out"
        if not (out / "_spark_metadata").exists():
            return []
        rows = self._spark.read.schema("partition INT, offset BIGINT, value BINARY").parquet(str(out)).collect()
        return [bytes(row.value) for row in sorted(rows)]


@pytest.fixture
def stream(spark: Any, node: RunningNode, tmp_path: Path) -> Callable[..., Stream]:
    return lambda **options: Stream(spark, node, tmp_path, **options)


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%04d" % n for n in range(first, last)]


def test_it_goes_on_from_its_checkpoint(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node)
    reading = stream(subscribe=topic, startingOffsets="earliest")
    write(node, topic, numbered(0, 5))
    reading.run()
    write(node, topic, numbered(5, 9))
    reading.run()
    reading.run()  # finds nothing new
    assert reading.values() == numbered(0, 9)


def test_records_come_while_it_runs(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node, 2)
    write(node, topic, [b"from before"])
    reading = stream(subscribe=topic)  # from the latest on
    with reading.running() as query:
        until(lambda: query.lastProgress is not None or query.exception())
        write(node, topic, numbered(0, 3), 0)
        until(lambda: len(reading.values()) == 3)
        write(node, topic, numbered(3, 6), 1)
        until(lambda: len(reading.values()) == 6)
        source = until(lambda: next(one for one in reversed(query.recentProgress) if one["numInputRows"] == 3))
    assert reading.values() == numbered(0, 6)
    (source,) = source["sources"]
    assert json.loads(source["endOffset"])[topic] == {"0": 4, "1": 3}
    assert json.loads(source["latestOffset"])[topic] == {"0": 4, "1": 3}


def test_a_batch_has_no_more_offsets_than_allowed(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node, 2)
    for partition in (0, 1):
        write(node, topic, numbered(0, 50), partition)
    reading = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    progress = [one["numInputRows"] for one in reading.run().recentProgress if one["numInputRows"]]
    assert progress == [30, 30, 30, 10]
    assert len(reading.values()) == 100


def test_a_batch_waits_for_enough_offsets(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, numbered(0, 2))  # is there when it is started, and does not wait
    reading = stream(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="1h")
    with reading.running(processingTime="100 milliseconds") as query:
        until(lambda: len(reading.values()) == 2 and query.lastProgress is not None)
        write(node, topic, numbered(2, 6))
        looked = query.lastProgress["timestamp"]
        until(lambda: query.lastProgress["timestamp"] > looked)
        assert len(reading.values()) == 2
        write(node, topic, numbered(6, 16))
        until(lambda: len(reading.values()) >= 12)


def test_new_partitions_are_read_from_their_beginning(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node)
    reading = stream(subscribe=topic)
    reading.run()
    grow_topic(node, topic, 3)
    write(node, topic, numbered(0, 2), 2)
    reading.run()
    assert reading.values() == numbered(0, 2)


def test_a_new_partition_that_has_lost_its_beginning(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node)
    strict = stream(subscribe=topic)
    strict.run()
    grow_topic(node, topic, 2)
    write(node, topic, numbered(0, 5), 1)
    delete_records(node, topic, 1, 3)
    with pytest.raises(Exception, match=f"{topic}-1 has come since the last batch, and begins at 3 and not at 0"):
        strict.run()
    lenient = stream(subscribe=topic, failOnDataLoss="false")
    lenient.run()
    assert lenient.values() == numbered(3, 5)


def test_new_topics_of_a_pattern_are_read(stream: Callable[..., Stream], node: RunningNode) -> None:
    new_topic(node, 1, "wave-1")
    reading = stream(subscribePattern="wave-.*")
    reading.run()
    write(node, new_topic(node, 1, "wave-2"), numbered(0, 2))
    reading.run()
    assert reading.values() == numbered(0, 2)


def test_a_topic_that_was_made_anew_is_noticed(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, numbered(0, 3))
    strict = stream(subscribe=topic, startingOffsets="earliest")
    strict.run()
    delete_topic(node, topic)
    new_topic(node, 1, topic)
    write(node, topic, numbered(3, 9))  # more than were read: offsets alone would not show it
    with pytest.raises(Exception, match=f"topic {topic} has been deleted and made anew"):
        strict.run()
    lenient = stream(subscribe=topic, failOnDataLoss="false")
    lenient.run()
    assert sorted(lenient.values()) == numbered(0, 9)


def test_records_that_were_deleted_before_they_were_read(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, numbered(0, 3))
    strict = stream(subscribe=topic, startingOffsets="earliest")
    strict.run()
    write(node, topic, numbered(3, 9))
    delete_records(node, topic, 0, 6)
    with pytest.raises(Exception, match=f"{topic}-0: offsets from 3 on .*; it begins at 6 now.*failOnDataLoss=false"):
        strict.run()
    assert strict.values() == numbered(0, 3)
    lenient = stream(subscribe=topic, failOnDataLoss="false")
    lenient.run()
    assert lenient.values() == [*numbered(0, 3), *numbered(6, 9)]


def test_offsets_of_finished_batches_are_those_of_a_group(stream: Callable[..., Stream], node: RunningNode) -> None:
    topic = new_topic(node, 2)
    write(node, topic, numbered(0, 7), 0)
    write(node, topic, numbered(0, 3), 1)
    group = f"readers-of-{topic}"
    stream(subscribe=topic, startingOffsets="earliest", kafka__group__id=group).run()
    admin = AdminClient({"bootstrap.servers": node.address})

    def told() -> list[tuple[int, int]]:
        found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return sorted((place.partition, place.offset) for place in found.topic_partitions)

    until(lambda: told() == [(0, 7), (1, 3)])  # the last ones follow the end of the query


def test_aborted_and_open_transactions(stream: Callable[..., Stream], node: RunningNode) -> None:
    from confluent_kafka import Producer

    topic = new_topic(node)
    reading = stream(subscribe=topic, startingOffsets="earliest", isolation="read_committed")
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    for value, ends_well in ((b"1", True), (b"undone", False), (b"2", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        (producer.commit_transaction if ends_well else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(topic, b"3")
    producer.flush(30)
    reading.run()
    assert reading.values() == [b"1", b"2"]
    producer.commit_transaction(30)
    reading.run()
    assert reading.values() == [b"1", b"2", b"3"]
