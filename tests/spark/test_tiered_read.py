"""Reads of a tiered topic straight from the store: the same rows as through the brokers, and the brokers do nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from tests.spark.configs import set_config
from tests.tier.s3 import S3, s3_server
from tests.tier.tiered import PER_BATCH, create, partition, produce, tiered_node
from tests.waiting import until

from ottla.testing.node import RunningNode


class Scene(NamedTuple):
    running: RunningNode
    tier: dict[str, str]
    """Options of a read."""


@pytest.fixture(scope="module", params=["folder", "s3"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("tiered")
    with ExitStack() as stack:
        url, options = S3(f"file://{folder}/tier", {})
        if request.param == "s3":
            url, options = stack.enter_context(s3_server())
        given = {f"rsm_config_{name}": value for name, value in options.items()}
        running = stack.enter_context(tiered_node(folder, url, **given))
        tier = {f"tier.{name.replace('_', '.')}": value for name, value in options.items()}
        yield Scene(running, {"tier.url": url, **tier})


def read(spark: Any, scene: Scene, topic: str, *, direct: bool, **options: str) -> Any:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", scene.running.address)
    for name, value in {"subscribe": topic, **options, **(scene.tier if direct else {})}.items():
        reader = reader.option(name, value)
    return reader.load()


def rows(frame: Any) -> list[tuple[Any, ...]]:
    chosen = frame.select("partition", "offset", "key", "value", "timestamp", "timestampType").collect()
    return sorted(tuple(bytes(each) if isinstance(each, bytearray) else each for each in row) for row in chosen)


def until_tiered(running: RunningNode, topic: str, offset: int) -> None:
    log = partition(running, topic).log
    until(lambda: log.local_start_offset >= offset, lambda: f"local from {log.local_start_offset}, not {offset}")


def tier_fetches(running: RunningNode, topic: str) -> int:
    tier = running.node.tier
    assert tier is not None
    return tier.counts[topic].fetches


def tier_bytes(running: RunningNode, topic: str) -> int:
    """What the broker has read there for others."""
    tier = running.node.tier
    assert tier is not None
    return tier.counts[topic].fetched_bytes


@pytest.fixture(scope="module")
def topic(scene: Scene) -> str:
    """A cold part of many segments, and a warm one."""
    name, running = "cold-and-warm", scene.running
    create(running.address, name)
    end = produce(running.address, 0, 20, topic=name)
    until_tiered(running, name, end)
    create_warm(running, name, end)
    return name


def create_warm(running: RunningNode, topic: str, first: int) -> None:
    """Less than a segment, which stays on the disk for as long as it is not closed."""
    set_config(running.address, topic, "local.retention.ms", "-2")
    set_config(running.address, topic, "internal.segment.bytes", "100000")
    produce(running.address, first, 4, topic=topic)


def test_the_same_rows_come_and_no_broker_reads_the_tier(spark: Any, scene: Scene, topic: str) -> None:
    before = tier_fetches(scene.running, topic)
    direct = rows(read(spark, scene, topic, direct=True))
    assert tier_fetches(scene.running, topic) == before
    assert [row[1] for row in direct] == list(range(24 * PER_BATCH))
    assert direct == rows(read(spark, scene, topic, direct=False))
    assert tier_fetches(scene.running, topic) > before


@pytest.mark.parametrize(("start", "end"), [(0, 7), (3, 61), (52, 119), (99, 101), (100, 110)])
def test_any_range_of_offsets(spark: Any, scene: Scene, topic: str, start: int, end: int) -> None:
    asked = {
        "startingOffsets": f'{{"{topic}": {{"0": {start}}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": {end}}}}}',
    }
    direct = rows(read(spark, scene, topic, direct=True, **asked))
    assert [row[1] for row in direct] == list(range(start, end))
    assert direct == rows(read(spark, scene, topic, direct=False, **asked))


def test_segments_are_read_in_parallel(spark: Any, scene: Scene, topic: str) -> None:
    from pyspark.sql.functions import spark_partition_id

    frame = read(spark, scene, topic, direct=True, minPartitions="8")
    assert frame.select(spark_partition_id().alias("task")).distinct().count() >= 8
    assert [row[1] for row in rows(frame)] == list(range(24 * PER_BATCH))


def test_a_stream_goes_on_from_the_brokers_at_the_exact_offset(
    spark: Any, scene: Scene, topic: str, tmp_path: Path
) -> None:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", scene.running.address)
    given = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "37", **scene.tier}
    for name, value in given.items():
        reader = reader.option(name, value)
    before = tier_bytes(scene.running, topic)
    query = (
        reader.load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300) and query.exception() is None
    # Of a batch that ends in the tier the brokers are asked what follows: how old it is, and what was aborted there.
    through_brokers = tier_bytes(scene.running, topic) - before
    before = tier_bytes(scene.running, topic)
    assert rows(spark.read.parquet(str(tmp_path / "rows"))) == rows(read(spark, scene, topic, direct=False))
    assert through_brokers < (tier_bytes(scene.running, topic) - before) / 2


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(spark: Any, scene: Scene, isolation: str) -> None:
    """Aborted ones that lie in one segment, reach over several, and end on the disk."""
    name, running = f"transactions-{isolation.replace('_', '-')}", scene.running
    create(running.address, name)
    aborting, committing = (
        Producer({"bootstrap.servers": running.address, "transactional.id": f"{which} {name}", "linger.ms": 0})
        for which in ("aborts", "commits")
    )
    for producer in (aborting, committing):
        producer.init_transactions(60)
    for turn in range(3):
        aborting.begin_transaction()
        for number in range(5):
            aborting.produce(name, b"aborted %d %d" % (turn, number) + b"." * 200, partition=0)
            aborting.flush()
            committing.begin_transaction()
            committing.produce(name, b"committed %d %d" % (turn, number) + b"." * 200, partition=0)
            committing.commit_transaction(60)
        if turn == 1:
            aborting.commit_transaction(60)
        else:
            aborting.abort_transaction(60)
    until_tiered(running, name, partition(running, name).log.end_offset)
    for given in ({}, {"maxRecordsPerPartition": "3"}):
        direct = rows(read(spark, scene, name, direct=True, isolation=isolation, **given))
        assert direct == rows(read(spark, scene, name, direct=False, isolation=isolation))
        aborted = [row for row in direct if row[3].startswith(b"aborted")]
        assert len(aborted) == (5 if isolation == "read_committed" else 15)
        assert len(direct) - len(aborted) == 15


def test_what_a_producer_commits_after_it_has_aborted_is_read(spark: Any, scene: Scene) -> None:
    """Both in one segment, of which tasks read parts: that of the second one begins behind the end of the first."""
    name, running = "aborts-then-commits", scene.running
    create(running.address, name, internal_segment_bytes="100000", segment_ms="1500")
    producer = Producer({"bootstrap.servers": running.address, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(60)
    for turn in range(6):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(name, b"%s %d %d" % (b"aborted" if turn % 3 == 0 else b"kept", turn, number), partition=0)
            producer.flush()
        producer.abort_transaction(60) if turn % 3 == 0 else producer.commit_transaction(60)
    end = partition(running, name).log.end_offset
    time.sleep(1.6)  # what is written next begins a segment
    produce_one(running, name)
    until_tiered(running, name, end)
    for given in ({}, {"maxRecordsPerPartition": "2"}):
        direct = rows(read(spark, scene, name, direct=True, isolation="read_committed", **given))
        assert direct == rows(read(spark, scene, name, direct=False, isolation="read_committed"))
        assert [row[3].split()[0] for row in direct] == [b"kept"] * 12 + [b"last"]


def produce_one(running: RunningNode, topic: str) -> None:
    producer = Producer({"bootstrap.servers": running.address})
    producer.produce(topic, b"last", partition=0)
    assert producer.flush(60) == 0


def test_what_is_gone_from_the_store_is_asked_of_the_brokers(spark: Any, scene: Scene) -> None:
    """Which say what has become of it: here that they cannot read it either, and name the partition."""
    name, running = "gone", scene.running
    create(running.address, name)
    end = produce(running.address, 0, 4, topic=name)
    until_tiered(running, name, end)
    tier = running.node.tier
    assert tier is not None
    keys = [each.key for each in running.wait_for(tier.store.list("")) if each.key.startswith(f"{name}-")]
    running.wait_for(tier.store.delete([key for key in keys if key.endswith(".log")]))
    with pytest.raises(Exception, match=f"cannot read {name}-0 from offset 0 on"):
        rows(read(spark, scene, name, direct=True, **{"kafka.default.api.timeout.ms": "2000"}))


def test_a_damaged_object_is_named(spark: Any, scene: Scene) -> None:
    name, running = "damaged", scene.running
    create(running.address, name)
    end = produce(running.address, 0, 4, topic=name)
    until_tiered(running, name, end)
    tier = running.node.tier
    assert tier is not None
    keys = [each.key for each in running.wait_for(tier.store.list("")) if each.key.startswith(f"{name}-")]
    (damaged,) = [key for key in keys if key.endswith(".log") and "/00000000000000000010-" in key]
    data = running.wait_for(tier.store.read(damaged))
    running.wait_for(tier.store.put(damaged, [data[:-1] + bytes((data[-1] ^ 1,))]))
    with pytest.raises(Exception, match=damaged):
        rows(read(spark, scene, name, direct=True))
