"""Spark writes to a real node: batches and streams."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.spark.topics import Broker, committed, forget_last_commit, messages, new_topic, write

from ottla.testing.node import RunningNode

VALUES = [b"%05d" % n for n in range(2000)]


def rows(spark: Any, columns: str, *values: tuple[Any, ...]) -> Any:
    return spark.createDataFrame(list(values), columns)


def save(frame: Any, node: Broker, **options: Any) -> None:
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", node.address)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save()


def copying(
    spark: Any,
    node: Broker,
    source: str,
    target: str,
    folder: Path,
    *,
    at_once: int = 500,
    between: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", node.address)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("maxOffsetsPerTrigger", at_once).load().select("key", "value")
    frame = frame if between is None else frame.mapInArrow(between, frame.schema)
    writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", node.address)
    writer = writer.option("topic", target).option("checkpointLocation", str(folder))
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), value)
    return writer.trigger(availableNow=True).start()


def test_columns_say_what_is_written_and_where(spark: Any, node: RunningNode) -> None:
    one, other = new_topic(node, 3), new_topic(node, 2)
    columns = "key BINARY, value STRING, topic STRING, partition INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    frame = rows(
        spark,
        columns,
        (b"k", "a", one, 2, [("h", b"1"), ("n", None)]),
        (None, None, one, 1, None),
        (None, "b", other, None, []),
    )
    save(frame, node)
    by_partition = {message.partition(): message for message in messages(node, one)}
    assert by_partition[2].key() == b"k" and by_partition[2].value() == b"a"
    assert by_partition[2].headers() == [("h", b"1"), ("n", None)]
    assert (by_partition[1].key(), by_partition[1].value(), by_partition[1].headers()) == (None, None, None)
    assert [message.value() for message in messages(node, other)] == [b"b"]


def test_keys_are_placed_as_the_java_clients_do(spark: Any, node: RunningNode) -> None:
    ours, theirs = new_topic(node, 7), new_topic(node, 7)
    producer = Producer({"bootstrap.servers": node.address, "partitioner": "murmur2_random"})
    for value in VALUES:
        producer.produce(theirs, value, value)
    producer.flush(30)
    save(rows(spark, "key BINARY, value BINARY", *((value, value) for value in VALUES)), node, topic=ours)
    placed = {message.key(): message.partition() for message in messages(node, theirs)}
    assert {message.key(): message.partition() for message in messages(node, ours)} == placed


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(spark: Any, node: RunningNode, codec: str) -> None:
    topic = new_topic(node)
    frame = rows(spark, "value BINARY", *((value,) for value in VALUES))
    save(frame, node, topic=topic, kafka__compression__type=codec, delivery="exactly-once")
    assert sorted(committed(node, topic)) == VALUES


def test_a_stream_is_copied_and_a_batch_that_is_repeated_is_not_doubled(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node, 2), new_topic(node, 3)
    write(node, source, VALUES[:1000], 0)
    write(node, source, VALUES[1000:], 1)
    copying(spark, node, source, target, tmp_path).awaitTermination()
    assert sorted(committed(node, target)) == VALUES
    forget_last_commit(tmp_path)
    write(node, source, [b"99999"], 0)
    copying(spark, node, source, target, tmp_path).awaitTermination()
    assert sorted(committed(node, target)) == [*VALUES, b"99999"]


def test_a_task_that_fails_is_tried_again_and_writes_once(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node), new_topic(node, 3)
    write(node, source, VALUES)

    def fail_once(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("fails when all its rows are there")

    copying(spark, node, source, target, tmp_path, between=fail_once).awaitTermination()
    assert sorted(message.value() for message in messages(node, target)) == VALUES


def test_a_stream_at_least_once(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node, 2), new_topic(node, 3)
    write(node, source, VALUES, 0)
    copying(spark, node, source, target, tmp_path, delivery="at-least-once").awaitTermination()
    assert sorted(message.value() for message in messages(node, target)) == VALUES


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("vale STRING", {"topic": "t"}, "no column value .*did you mean vale"),
        ("value INT", {"topic": "t"}, "column value must be binary or string, not int"),
        ("value STRING, partition STRING", {"topic": "t"}, "column partition must be int"),
        ("value STRING", {}, "option topic, or by a column topic"),
        ("value STRING", {"topic": "t", "delivry": "x"}, "no option delivry for writing; did you mean delivery"),
        ("value STRING", {"topic": "t", "delivery": "twice"}, "delivery is exactly-once or at-least-once"),
        ("value STRING", {"topic": "t", "kafka__compresion__type": "x"}, "did you mean compression.type"),
        ("value STRING", {"topic": "t", "kafka__compression__type": "rar"}, "kafka.compression.type is none, gzip"),
        ("value STRING", {"topic": "t", "kafka__value__serializer": "x"}, "values are binary or strings"),
        ("value STRING", {"topic": "not-there"}, "cannot write to topic not-there, which is not there"),
    ],
)
def test_what_is_wrong_is_said(spark: Any, node: RunningNode, columns: str, options: dict[str, str], says: str) -> None:
    empty = tuple(None for _ in columns.split(","))
    with pytest.raises(Exception, match=says):
        save(rows(spark, columns, empty), node, **options)


def test_nothing_is_overwritten(spark: Any, node: RunningNode) -> None:
    frame = rows(spark, "value STRING", ("v",))
    with pytest.raises(Exception, match="records cannot be overwritten"):
        frame.write.format("ottla").mode("overwrite").option("topic", "t").option(
            "kafka.bootstrap.servers", node.address
        ).save()
