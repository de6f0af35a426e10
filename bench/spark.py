"""`python -m bench.spark`: Spark reads and writes: `format("ottla")` on Ottla, the official connector on Apache Kafka.

--only NAME     parts whose name holds NAME

Needs `pip install -e .[spark,bench]`, and Maven once for the connector's jars. One Spark for both sides, `local[*]`,
which one round warms up: reads with a tenth of the records, copies with all. OTTLA_BENCH_SPARK_RECORDS makes it
smaller than 10 million. The connector has one way to write a stream, at least once, which stands beside both of ours.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from bench import load
from bench.bars import Bar, Direction
from bench.nodes import Node
from bench.parts import Part, Plan, run
from ottla.spark.foreach_batch import exactly_once
from ottla.spark.java import prepare
from ottla.testing.spark_connector import ConnectorUnavailable, bring_connector

RECORDS = int(os.environ.get("OTTLA_BENCH_SPARK_RECORDS", 10_000_000))
COPIED, A_BATCH = RECORDS // 5, RECORDS // 20
WARM_UP = 20_000
PARTITIONS, SIZE = 4, 100
PROBES, BETWEEN_S = 40, 0.25
_READS = ("to noop", "to Parquet", "count distinct")
_COPY, _COPY_BY_EXECUTORS, _NEAR_EMPTY = "copy a stream", "copy a stream, executors write", "near-empty stream"
_session: Any = None


def spark() -> Any:
    global _session
    if _session is None:
        from pyspark.sql import SparkSession

        prepare()
        builder = SparkSession.builder.master("local[*]").appName("ottla bench").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.jars", ",".join(map(str, bring_connector())))
        builder = builder.config("spark.driver.memory", "3g").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
        builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "50000")  # what a sink gets at once
        _session = builder.getOrCreate()
        _session.sparkContext.setLogLevel("ERROR")
    return _session


def _format(node: Node) -> str:
    return "ottla" if node.side == "ottla" else "kafka"


def _with_options(entry: Any, node: Node, **options: Any) -> Any:
    entry = entry.format(_format(node)).option("kafka.bootstrap.servers", node.bootstrap)
    for name, value in options.items():
        entry = entry.option(name, value)
    return entry


def _filled(node: Node, number: int, records: int) -> tuple[str, int]:
    """A topic with records, made when it is first asked for, and how many are in it. Round 0 has a tenth of them."""
    records = records if number else records // 10
    topic, written = f"of-{records}", records + PARTITIONS  # the load begins with a record for each partition
    if topic not in node.admin.list_topics(timeout=30).topics:
        node.create_topic(topic, PARTITIONS)
        load.run("batched", node.bootstrap, topic=topic, partitions=PARTITIONS, size=SIZE, records=records)
        os.sync()
    return topic, written


def _count(node: Node, topic: str) -> int:
    """Asked of Spark, by the side's own source, so that what was written is known to be there."""
    return int(_with_options(spark().read, node, subscribe=topic).load().count())


def _check(node: Node, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise RuntimeError(f"{node.side}: {what} came to {found} records, and {expected} were written")


def reading(how: str, node: Node, number: int) -> dict[str, Any]:
    topic, records = _filled(node, number, RECORDS)
    folder = node.directory.with_name(f"{node.side}-parquet")
    began = time.perf_counter()
    frame = _with_options(spark().read, node, subscribe=topic).load()
    if how == "to noop":
        frame.write.format("noop").mode("overwrite").save()
    elif how == "to Parquet":
        frame.write.option("compression", "zstd").parquet(str(folder))
    else:
        counted = frame.select("partition", "offset").distinct().count()
    seconds = time.perf_counter() - began
    if how == "to Parquet":
        _check(node, how, spark().read.parquet(str(folder)).count(), records)
        shutil.rmtree(folder)
    elif how == "count distinct":
        _check(node, how, counted, records)
    return {"seconds": round(seconds, 2), "rate": round(records / seconds)}


def copying(by_executors: bool, node: Node, number: int) -> dict[str, Any]:
    """Warmed up with all of the records: with a tenth of them the connector is not at its best in the next round."""
    source, records = _filled(node, 1, COPIED)
    target = f"copy-{by_executors:d}-{number}"
    node.create_topic(target, PARTITIONS)
    checkpoint = node.directory.with_name(f"{node.side}-{target}")
    began = time.perf_counter()
    _copy(node, source, target, checkpoint, by_executors=by_executors and node.side == "ottla")
    seconds = time.perf_counter() - began
    _check(node, "a copy", _count(node, target), records)
    node.delete_topic(target)
    os.sync()
    return {"seconds": round(seconds, 2), "rate": round(records / seconds)}


def _copy(node: Node, source: str, target: str, checkpoint: Path, *, by_executors: bool) -> None:
    options = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": A_BATCH}
    frame = _with_options(spark().readStream, node, **options).load().select("key", "value")
    if by_executors:
        writer = frame.writeStream.foreachBatch(
            exactly_once({"kafka.bootstrap.servers": node.bootstrap, "topic": target})
        )
    else:
        writer = _with_options(frame.writeStream, node, topic=target)
    writer = writer.option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


@contextmanager
def _near_empty(node: Node, few: str) -> Any:
    node.create_topic(few, PARTITIONS)
    node.create_topic(f"{few}-out", PARTITIONS)
    checkpoint = node.directory.with_name(f"{node.side}-{few}")
    frame = _with_options(spark().readStream, node, subscribe=few).load().select("key", "value")
    writer = _with_options(frame.writeStream, node, topic=f"{few}-out").option("checkpointLocation", str(checkpoint))
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


def near_empty(node: Node, number: int) -> dict[str, Any]:
    """One record at a time, from before it is sent until a reader of what is committed has it."""
    few, probes = f"few-{number}", PROBES if number else PROBES // 4
    took: list[float] = []
    ended = threading.Event()

    def receive() -> None:
        settings = {"bootstrap.servers": node.bootstrap, "group.id": few, "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, "log_level": 0})
        consumer.subscribe([f"{few}-out"])
        while not ended.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                took.append((time.time_ns() - int(message.value() or b"0")) / 1e6)
        consumer.close()

    with _near_empty(node, few) as query:
        receiving = threading.Thread(target=receive)
        receiving.start()
        producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "log_level": 0})
        deadline = time.monotonic() + 60
        while len(took) < 5 and time.monotonic() < deadline:  # until all is warm
            producer.produce(few, str(time.time_ns()))
            producer.flush(10)
            time.sleep(1)
        warm, began_with = len(took), query.lastProgress["batchId"]
        for probe in range(probes):
            producer.produce(few, str(time.time_ns()), partition=probe % PARTITIONS)
            producer.flush(10)
            time.sleep(BETWEEN_S)
        time.sleep(2)
        ended.set()
        receiving.join()
        batches = [one for one in query.recentProgress if one["batchId"] > began_with and one["numInputRows"]]
    took = sorted(took[warm:])
    return {
        "batch_p50_ms": statistics.median(one["durationMs"]["triggerExecution"] for one in batches),
        "batches": len(batches),
        "in_to_out_p50_ms": round(statistics.median(took)),
        "in_to_out_p99_ms": round(took[len(took) * 99 // 100]),
        "records": len(took),
    }


PARTS: dict[str, Part] = {
    **{f"read {how}": partial(reading, how) for how in _READS},
    _COPY: partial(copying, False),
    _COPY_BY_EXECUTORS: partial(copying, True),
    _NEAR_EMPTY: near_empty,
}
_LEAST, _MOST = Direction.AT_LEAST, Direction.AT_MOST
PLAN = Plan(
    "spark",
    f"Spark: {RECORDS:,} records of {SIZE} B in {PARTITIONS} partitions read, {COPIED:,} copied as a stream: exactly "
    "once by Ottla, at least once by the official connector.",
    PARTS,
    (
        Bar("batch read to noop", "read to noop", "rate", "records/s", _LEAST, 1.5),
        Bar("batch read to Parquet", "read to Parquet", "rate", "records/s", _LEAST, 1.0),
        Bar("batch read, count distinct", "read count distinct", "rate", "records/s", _LEAST, 1.0),
        Bar("stream copy, exactly once", _COPY, "rate", "records/s", _LEAST, 1.0),
        Bar("stream copy, exactly once, executors write", _COPY_BY_EXECUTORS, "rate", "records/s", _LEAST, 1.0),
        Bar("micro-batch of a near-empty stream", _NEAR_EMPTY, "batch_p50_ms", "ms", _MOST, 250, absolute=True),
        Bar("record in to record out, p50", _NEAR_EMPTY, "in_to_out_p50_ms", "ms", _MOST, 700, absolute=True),
    ),
)

if __name__ == "__main__":
    try:
        bring_connector()
    except ConnectorUnavailable as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(run(PLAN))
