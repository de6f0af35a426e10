"""Spark's official Kafka connector reads and writes our nodes, and its jobs become ours by changing one word.

Needs the connector's jars: `python -m bench.spark` brings them (see `ottla.testing.spark_connector`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.spark.topics import committed, messages, new_topic, write
from tests.waiting import until

from ottla.testing import spark_connector
from ottla.testing.node import RunningNode

pytestmark = pytest.mark.skipif(not spark_connector.available(), reason="the jars of the connector are not here")

FORMATS = ["kafka", "ottla"]
VALUES = [b"%05d" % n for n in range(2000)]
BEGIN = 1_700_000_000_000


@pytest.fixture(scope="module")
def topic(node: RunningNode) -> str:
    """Four batches in each of two partitions, a second apart."""
    name = new_topic(node, 2, "compared")
    for second in range(4):
        for partition in (0, 1):
            values = [b"%d-%d-%d" % (partition, second, n) for n in range(10)]
            write(node, name, values, partition, key=b"k", timestamp=BEGIN + second * 1000, headers=[("h", b"1")])
    write(node, name, [None], 1, timestamp=BEGIN + 4000)
    return name


def read(spark: Any, node: RunningNode, kind: str, **options: Any) -> list[Any]:
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", node.address)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return sorted(reader.load().collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"subscribe": "compared"}, 81),
        ({"subscribe": "compared", "includeHeaders": "true"}, 81),
        ({"subscribePattern": "comp.*"}, 81),
        ({"subscribePattern": "pare"}, 81),  # a part of the name
        ({"subscribe": "compared", "maxOffsetsPerTrigger": 5}, 81),  # has no effect on a batch query
        ({"assign": '{"compared": [1]}'}, 41),
        (
            {
                "subscribe": "compared",
                "startingOffsets": '{"compared": {"0": 35, "1": -2}}',
                "endingOffsets": '{"compared": {"0": -1, "1": 3}}',
            },
            8,
        ),
        ({"subscribe": "compared", "startingTimestamp": BEGIN + 3000}, 21),
        ({"subscribe": "compared", "endingTimestamp": BEGIN + 1000}, 20),
        (
            {
                "subscribe": "compared",
                "startingOffsetsByTimestamp": f'{{"compared": {{"0": {BEGIN + 1}, "1": {BEGIN + 4000}}}}}',
                "endingOffsetsByTimestamp": f'{{"compared": {{"0": {BEGIN + 2000}, "1": {BEGIN + 9000}}}}}',
            },
            11,
        ),
        ({"subscribe": "compared", "minPartitions": 5, "failOnDataLoss": "false"}, 81),
        ({"subscribe": "compared", "kafka__isolation__level": "read_committed", "kafka__max__poll__records": 7}, 81),
    ],
)
def test_both_give_the_same_rows(
    spark: Any, node: RunningNode, topic: str, options: dict[str, Any], count: int
) -> None:
    theirs, ours = (read(spark, node, kind, **options) for kind in FORMATS)
    assert len(theirs) == count
    assert ours == theirs


def test_both_have_the_same_columns(spark: Any, node: RunningNode, topic: str) -> None:
    def columns(kind: str) -> Any:
        reader = spark.read.format(kind).option("kafka.bootstrap.servers", node.address).option("subscribe", topic)
        return reader.option("includeHeaders", "true").load().schema

    assert columns("ottla") == columns("kafka")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_pattern_leaves_out_the_topics_of_kafka_itself(spark: Any, node: RunningNode, topic: str, kind: str) -> None:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "g"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    assert "__consumer_offsets" in AdminClient({"bootstrap.servers": node.address}).list_topics(timeout=30).topics
    assert {row.topic for row in read(spark, node, kind, subscribePattern="^(__.*|compared)$")} == {"compared"}


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    "options",
    [
        {
            "startingOffsets": '{"compared": {"0": 9, "1": 0}}',
            "endingOffsets": '{"compared": {"0": 5, "1": 3}}',
        },
        {"startingOffsets": '{"compared": {"0": 99, "1": 0}}'},
        {"startingTimestamp": BEGIN + 3000, "endingTimestamp": BEGIN + 1000},
    ],
)
def test_a_read_that_would_end_before_it_begins_is_refused(
    spark: Any, node: RunningNode, topic: str, kind: str, options: dict[str, Any]
) -> None:
    with pytest.raises(Exception, match=r"(?i)reading is to begin|greater than|START_OFFSET"):
        read(spark, node, kind, subscribe=topic, **options)


@pytest.mark.parametrize("kind", FORMATS)
def test_what_waits_when_a_stream_begins_is_read_at_once_and_then_so_many_at_least(
    spark: Any, node: RunningNode, tmp_path: Path, kind: str
) -> None:
    topic = new_topic(node)
    write(node, topic, VALUES[:2])
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", node.address).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("maxTriggerDelay", "1h")
    writer = reader.option("minOffsetsPerTrigger", 10).load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds")
    query = writer.start()

    def sizes() -> list[int]:
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    try:
        until(lambda: sizes() == [2])
        write(node, topic, VALUES[2:6])
        write(node, topic, VALUES[6:16])
        until(lambda: len(sizes()) == 2)
        assert sizes()[1] >= 10
    finally:
        query.stop()


@pytest.mark.parametrize("kind", FORMATS)
def test_the_option_topic_comes_before_the_column(spark: Any, node: RunningNode, kind: str) -> None:
    topic = new_topic(node)
    save(spark.createDataFrame([("v", 7)], "value STRING, topic INT"), node, kind, topic)
    assert [message.value() for message in messages(node, topic)] == [b"v"]


def save(frame: Any, node: RunningNode, kind: str, topic: str) -> None:
    writer = frame.write.format(kind).mode("append").option("kafka.bootstrap.servers", node.address)
    writer.option("topic", topic).option("includeHeaders", "true").save()


def test_what_one_has_written_the_other_reads(spark: Any, node: RunningNode) -> None:
    columns = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    frame = spark.createDataFrame([(value, value, [("h", value)]) for value in VALUES], columns)
    by_ours, by_theirs = new_topic(node, 5), new_topic(node, 5)
    save(frame, node, "ottla", by_ours)
    save(frame, node, "kafka", by_theirs)
    placed = [
        {bytes(row.key): (row.partition, bytes(row.value), row.headers) for row in rows}
        for rows in (
            read(spark, node, "kafka", subscribe=by_ours, includeHeaders="true"),
            read(spark, node, "ottla", subscribe=by_theirs, includeHeaders="true"),
        )
    ]
    assert placed[0] == placed[1] and len(placed[0]) == len(VALUES)


def copy(spark: Any, node: RunningNode, kinds: tuple[str, str], source: str, target: str, checkpoint: Path) -> None:
    reader = spark.readStream.format(kinds[0]).option("kafka.bootstrap.servers", node.address)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", 300).load().select("key", "value")
    writer = frame.writeStream.format(kinds[1]).option("kafka.bootstrap.servers", node.address)
    writer = writer.option("topic", target).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_it_streams_from_topic_to_topic(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node, 3), new_topic(node, 2)
    for partition in range(3):
        write(node, source, VALUES[partition::3], partition)
    copy(spark, node, ("kafka", "kafka"), source, target, tmp_path)
    assert sorted(message.value() for message in messages(node, target)) == VALUES


def test_a_stream_moves_over_with_its_checkpoint(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node, 3), new_topic(node, 2)
    for partition in range(3):
        write(node, source, VALUES[partition:1000:3], partition)
    copy(spark, node, ("kafka", "kafka"), source, target, tmp_path)
    for partition in range(3):
        write(node, source, VALUES[1000 + partition :: 3], partition)
    copy(spark, node, ("ottla", "ottla"), source, target, tmp_path)
    assert sorted(committed(node, target)) == VALUES
