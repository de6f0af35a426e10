"""Executors write micro-batches in parallel, exactly once, to a real node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.topics import Broker, committed, forget_last_commit, messages, new_topic, write

from ottla.model.names import TopicPartition
from ottla.spark import foreach_batch, loop_thread
from ottla.spark.client_settings import Role, client_settings
from ottla.spark.cluster import Cluster
from ottla.spark.encoder import Encoded, Encoder
from ottla.spark.foreach_batch import QUERY_ID, exactly_once
from ottla.spark.parcels import Changed, Manifest, Parcel, lane_of
from ottla.spark.producing import Producer
from ottla.spark.spooling import send_lane
from ottla.testing.node import RunningNode

VALUES = [b"%05d" % n for n in range(3000)]


def options(node: Broker, target: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": node.address, "topic": target, "kafka.default.api.timeout.ms": "20000", **more}


def copying(spark: Any, node: Broker, source: str, target: str, folder: Path) -> Any:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", node.address)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest").option("minPartitions", 4)
    frame = reader.option("maxOffsetsPerTrigger", 1000).load().select("key", "value")
    writer = frame.writeStream.foreachBatch(exactly_once(options(node, target)))
    return writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()


@pytest.fixture(params=["files", "shuffle"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How record batches come to who sends them: as on one machine, or as on a cluster."""
    monkeypatch.setattr(foreach_batch, "is_one_machine", lambda context: request.param == "files")
    return str(request.param)


@pytest.fixture
def query(spark: Any, way: str) -> Iterator[Any]:
    """As if a streaming query called, for what is done with a frame directly."""
    spark.sparkContext.setLocalProperty(QUERY_ID, "a-query-of-tests")
    yield spark
    spark.sparkContext.setLocalProperty(QUERY_ID, None)


def rows(spark: Any, values: list[bytes], tasks: int = 4) -> Any:
    frame = spark.createDataFrame([(value, value) for value in values], "key BINARY, value BINARY")
    return frame.repartition(tasks)


def test_a_stream_is_copied_and_a_batch_that_is_repeated_is_not_doubled(
    spark: Any, way: str, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node, 2), new_topic(node, 3)
    write(node, source, VALUES[:2000], 0)
    write(node, source, VALUES[2000:], 1)
    copying(spark, node, source, target, tmp_path).awaitTermination()
    assert sorted(committed(node, target)) == VALUES
    forget_last_commit(tmp_path)
    write(node, source, [b"99999"], 0)
    copying(spark, node, source, target, tmp_path).awaitTermination()
    assert sorted(committed(node, target)) == [*VALUES, b"99999"]
    assert {message.partition() for message in messages(node, target)} == {0, 1, 2}


def test_rows_of_many_topics_and_an_empty_batch(query: Any, node: RunningNode) -> None:
    one, other = new_topic(node, 3), new_topic(node)
    given = options(node, one) | {"kafka.transactional.id": f"writer-of-{one}"}
    del given["topic"]
    frame = query.createDataFrame([(one, "a"), (other, "b"), (one, "c")], "topic STRING, value STRING")
    exactly_once(given)(frame.where("value = 'none'"), 0)
    exactly_once(given)(frame, 1)
    exactly_once(given)(frame, 1)
    assert sorted(committed(node, one)) == [b"a", b"c"] and committed(node, other) == [b"b"]


def test_of_two_live_drivers_one_is_fenced(
    query: Any, node: RunningNode, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The second writes the same batch when the first has sent all of it and is about to commit."""
    topic = new_topic(node, 2)
    given = options(node, topic) | {"kafka.transactional.id": f"writer-of-{topic}"}

    def send_then_be_overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(foreach_batch, f"_send_by_{way}", really_send)
        sent = really_send(*arguments)
        exactly_once(given)(rows(query, VALUES), 0)
        return sent

    really_send = getattr(foreach_batch, f"_send_by_{way}")
    monkeypatch.setattr(foreach_batch, f"_send_by_{way}", send_then_be_overtaken)
    with pytest.raises(Exception, match="another driver writes under the transactional id"):
        exactly_once(given)(rows(query, VALUES), 0)
    assert sorted(committed(node, topic)) == VALUES


def test_a_task_that_fails_after_it_has_sent_is_tried_again(
    query: Any, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(node, 3)
    given = options(node, topic) | {"kafka.transactional.id": f"writer-of-{topic}"}
    really_sending, really_send_lane = foreach_batch._sending, send_lane

    def send_lane_and_fail(*arguments: Any) -> None:
        from pyspark import TaskContext

        really_send_lane(*arguments)
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("fails at its end")

    def failing_once(*arguments: Any) -> Any:
        send = really_sending(*arguments)

        def send_and_fail(batches: Any) -> Any:
            from pyspark import TaskContext

            yield from send(batches)
            if TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("fails at its end")

        return send_and_fail

    monkeypatch.setattr(foreach_batch, "_sending", failing_once)
    monkeypatch.setattr(foreach_batch, "send_lane", send_lane_and_fail)
    exactly_once(given)(rows(query, VALUES), 0)
    assert sorted(committed(node, topic)) == VALUES


def test_a_task_that_is_tried_again_while_it_makes_record_batches(query: Any, node: RunningNode) -> None:
    """It has put all of them somewhere when it fails."""
    topic = new_topic(node, 3)
    given = options(node, topic) | {"kafka.transactional.id": f"writer-of-{topic}"}
    frame = rows(query, VALUES)

    def fail_once(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("fails when all its rows are there")

    exactly_once(given)(frame.mapInArrow(fail_once, frame.schema), 0)
    assert sorted(committed(node, topic)) == VALUES


def test_nothing_is_left_of_what_was_put_into_files(query: Any, node: RunningNode) -> None:
    from pyspark import SparkFiles

    topic = new_topic(node)
    given = options(node, topic) | {"kafka.transactional.id": f"writer-of-{topic}"}
    exactly_once(given)(rows(query, VALUES), 0)
    assert list(Path(SparkFiles.getRootDirectory()).glob("ottla-*")) == []


def test_rows_that_come_out_differently_begin_the_batch_anew(
    query: Any, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreach_batch, "is_one_machine", lambda context: False)  # else they cannot
    topic = new_topic(node, 2)
    given = options(node, topic) | {"kafka.transactional.id": f"writer-of-{topic}"}
    times: list[Manifest] = []

    def once_of_other_rows(parcels: Any) -> Manifest:
        listed = list(parcels)
        if not times:
            listed[-1] = listed[-1]._replace(digest=0)
        times.append(Manifest(listed))
        return times[-1]

    monkeypatch.setattr(foreach_batch, "Manifest", once_of_other_rows)
    exactly_once(given)(rows(query, VALUES), 0)
    assert len(times) == 2
    assert sorted(committed(node, topic)) == VALUES


def test_what_is_wrong_is_said(query: Any, node: RunningNode) -> None:
    frame = rows(query, VALUES[:1])
    with pytest.raises(Exception, match="cannot write with delivery=at-least-once"):
        exactly_once(options(node, "t", delivery="at-least-once"))(frame, 0)
    with pytest.raises(Exception, match="cannot write to topic not-there, which is not there"):
        exactly_once(options(node, "not-there"))(frame, 0)
    query.sparkContext.setLocalProperty(QUERY_ID, None)
    with pytest.raises(Exception, match="does not say here which query this is"):
        exactly_once(options(node, "t"))(frame, 0)


# -- without Spark


def test_twins_that_send_the_same_parcels_at_once_write_them_once(node: RunningNode) -> None:
    """As a speculative copy does; one of them is more batches ahead than a broker remembers."""
    topic = new_topic(node)
    place = TopicPartition(topic, 0)
    cluster = Cluster(client_settings(options(node, topic), Role.PRODUCER))
    of_one = [[value.decode() for value in VALUES[n * 100 : n * 100 + 100]] for n in range(30)]

    def parcel(values: list[str]) -> Encoded:
        table = pa.record_batch({"value": pa.array(values)})
        return next(iter(Encoder(topic, transactional=True).encode(table, {topic: 1}, 1_700_000_000_000)))

    async def send() -> None:
        driver = Producer(cluster, f"writer-of-{topic}")
        await driver.begin()
        await driver.add_partitions([place])
        one, other = (Producer.with_identity(cluster, driver.identity) for _ in range(2))
        for n in range(10):
            await one.send_at(parcel(of_one[n]), n * 100)
        for n in range(20):
            await other.send_at(parcel(of_one[n]), n * 100)
        for n in range(10, 30):
            await one.send_at(parcel(of_one[n]), n * 100)
        await driver.end(commit=True)

    loop_thread.wait_for(send())
    assert committed(node, topic) == VALUES


def test_a_manifest_gives_each_parcel_its_place() -> None:
    listed = [Parcel(1, 0, "t", 0, 7, 11), Parcel(0, 1, "t", 0, 5, 12), Parcel(0, 0, "t", 1, 3, 13)]
    manifest = Manifest(listed)
    assert [manifest.sequence_of(parcel) for parcel in listed] == [5, 0, 0]
    assert (manifest.records, len(manifest), manifest.places) == (15, 3, {listed[0].place, listed[2].place})
    with pytest.raises(Changed, match="came out differently"):
        manifest.sequence_of(listed[0]._replace(digest=99))
    with pytest.raises(Changed, match="1 of 3 record batches"):
        manifest.check_all_sent([(0, 0), (0, 1)])


def test_partitions_are_spread_over_lanes() -> None:
    assert {lane_of(TopicPartition("t", n), 4) for n in range(4)} == {0, 1, 2, 3}
