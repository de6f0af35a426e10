"""Batch queries over a real node: the columns and options of the official source."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.spark.topics import delete_records, delete_topic, new_topic, write

from ottla.testing.node import RunningNode


def read(spark: Any, node: RunningNode, **options: Any) -> Any:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", node.address)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), value)
    return reader.load()


def values(frame: Any) -> list[bytes]:
    rows = frame.select("partition", "offset", "value").collect()
    return [bytes(row.value) for row in sorted(rows)]


def test_columns_are_those_of_the_official_source(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, [b"v"], key=b"k", timestamp=1_700_000_000_123, headers=[("h", b"1"), ("n", None)])
    write(node, topic, [None])
    frame = read(spark, node, subscribe=topic, includeHeaders="true")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    first, second = frame.orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k",
        b"v",
        topic,
        0,
        0,
    )
    moment = first.timestamp.astimezone(UTC) if first.timestamp.tzinfo else first.timestamp
    assert moment.replace(tzinfo=UTC) == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert first.timestampType == 0
    assert [(header.key, header.value) for header in first.headers] == [("h", b"1"), ("n", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_codecs(spark: Any, node: RunningNode, codec: str) -> None:
    topic = new_topic(node, 2)
    producer = Producer({"bootstrap.servers": node.address, "compression.type": codec})
    for n in range(2000):
        producer.produce(topic, b"%d" % n, partition=n % 2)
    producer.flush(30)
    frame = read(spark, node, subscribe=topic)
    assert sorted(values(frame)) == sorted(b"%d" % n for n in range(2000))
    assert "headers" not in frame.columns


def test_what_is_read_is_chosen_by_names_by_a_pattern_or_by_partition(spark: Any, node: RunningNode) -> None:
    one, other = new_topic(node, 2, "chosen-one"), new_topic(node, 1, "chosen-other")
    write(node, one, [b"a0"], 0)
    write(node, one, [b"a1"], 1)
    write(node, other, [b"b"])
    assert sorted(values(read(spark, node, subscribe=f"{one}, {other}"))) == [b"a0", b"a1", b"b"]
    assert sorted(values(read(spark, node, subscribePattern="chosen-o.*"))) == [b"a0", b"a1", b"b"]
    assert sorted(values(read(spark, node, subscribePattern="en-one"))) == [
        b"a0",
        b"a1",
    ]  # a part of the name is enough
    assert values(read(spark, node, subscribePattern="^en-one")) == []
    assert values(read(spark, node, assign=f'{{"{one}": [1]}}')) == [b"a1"]


def test_offsets_say_where_it_begins_and_ends(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node, 2)
    for partition in (0, 1):
        write(node, topic, [b"%d-%d" % (partition, n) for n in range(10)], partition)
    starting, ending = f'{{"{topic}": {{"0": 8, "1": -2}}}}', f'{{"{topic}": {{"0": -1, "1": 2}}}}'
    found = read(spark, node, subscribe=topic, startingOffsets=starting, endingOffsets=ending)
    assert values(found) == [b"0-8", b"0-9", b"1-0", b"1-1"]


def test_times_say_where_it_begins_and_ends(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node, 2)
    for hour in range(5):
        for partition in (0, 1):
            write(node, topic, [b"%d" % hour], partition, timestamp=1_700_000_000_000 + hour)
    begin = 1_700_000_000_000
    found = read(spark, node, subscribe=topic, startingTimestamp=begin + 1, endingTimestamp=begin + 3)
    assert values(found) == [b"1", b"2", b"1", b"2"]
    by_partition = f'{{"{topic}": {{"0": {begin + 4}, "1": {begin + 3}}}}}'
    assert values(read(spark, node, subscribe=topic, startingOffsetsByTimestamp=by_partition)) == [b"4", b"3", b"4"]
    late = {"subscribe": topic, "startingTimestamp": begin + 9}
    with pytest.raises(Exception, match="has no record as late as"):
        read(spark, node, **late).collect()
    assert values(read(spark, node, **late, startingOffsetsByTimestampStrategy="latest")) == []


def test_tasks_are_as_many_as_wanted(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node, 4)
    for partition in range(4):
        write(node, topic, [b"x"] * 100, partition)
    few = read(spark, node, subscribe=topic)
    assert (few.rdd.getNumPartitions(), few.count()) == (1, 400)
    many = read(spark, node, subscribe=topic, minPartitions=8)
    assert (many.rdd.getNumPartitions(), many.count()) == (8, 400)
    small = read(spark, node, subscribe=topic, maxRecordsPerPartition=30)
    assert (small.rdd.getNumPartitions(), small.count()) == (16, 400)


def test_only_what_is_committed(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    for value, ends_well in ((b"kept", True), (b"undone", False), (b"kept too", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        (producer.commit_transaction if ends_well else producer.abort_transaction)(30)
    everything = [b"kept", b"undone", b"kept too"]
    assert values(read(spark, node, subscribe=topic)) == everything
    assert values(read(spark, node, subscribe=topic, isolation="read_committed")) == [b"kept", b"kept too"]
    assert values(read(spark, node, subscribe=topic, kafka__isolation__level="read_committed")) == [
        b"kept",
        b"kept too",
    ]


def test_an_empty_topic_has_no_rows(spark: Any, node: RunningNode) -> None:
    assert read(spark, node, subscribe=new_topic(node, 3)).count() == 0


def test_a_topic_that_is_not_there_is_named_with_what_is_like_it(spark: Any, node: RunningNode) -> None:
    new_topic(node, 1, "payments")
    with pytest.raises(Exception, match="topic paymnets is not there; did you mean payments"):
        read(spark, node, subscribe="paymnets").collect()


def test_offsets_that_are_not_there_are_told_of_or_left_out(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, [b"0", b"1", b"2"])
    beyond = {"subscribe": topic, "endingOffsets": f'{{"{topic}": {{"0": 100}}}}'}
    with pytest.raises(Exception, match=f"{topic}-0 has offsets 0 to 3 and not all of 0 to 100"):
        read(spark, node, **beyond).collect()
    assert values(read(spark, node, **beyond, failOnDataLoss="false")) == [b"0", b"1", b"2"]


def test_offsets_that_were_all_deleted_are_told_of(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, [b"%d" % n for n in range(9)])
    delete_records(node, topic, 0, 7)
    gone = {"startingOffsets": f'{{"{topic}": {{"0": 2}}}}', "endingOffsets": f'{{"{topic}": {{"0": 5}}}}'}
    with pytest.raises(Exception, match=f"{topic}-0 has offsets 7 to 9 and not all of 2 to 5"):
        read(spark, node, subscribe=topic, **gone).collect()
    assert values(read(spark, node, subscribe=topic, failOnDataLoss="false", **gone)) == []


def test_nobody_at_the_address_is_told_of_in_a_sentence(spark: Any, node: RunningNode) -> None:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(Exception, match=r"cannot connect to 127.0.0.1:1.*is a broker listening there"):
        reader.option("subscribe", "x").option("kafka.default.api.timeout.ms", "500").load().collect()


def test_a_topic_that_was_deleted_after_planning(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, [b"old"])
    frame = read(spark, node, subscribe=topic, kafka__default__api__timeout__ms=5000)
    frame.rdd  # noqa: B018  (plans it)
    delete_topic(node, topic)
    new_topic(node, 1, topic)
    write(node, topic, [b"new"])
    with pytest.raises(Exception, match="has been deleted, and another of its name was made"):
        frame.rdd.collect()
