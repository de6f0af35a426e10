"""`python -m bench.sinks`: what pipelines write to and capture from, held against bars that stand by themselves.

--only NAME     parts whose name holds NAME

Needs `pip install -e .[pipelines,bench]`, and PostgreSQL for `capture`. OTTLA_BENCH_SPARK_RECORDS makes it smaller than
10 million records. One node of Ottla, one Spark, `local[*]`, each part once after a warm-up; a line of JSON for each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import load
from bench.nodes import OttlaNode
from ottla.pipeline.connectors.delta_sink import DeltaSink, DeltaSinkOptions
from ottla.pipeline.connectors.port import Batch, Place
from ottla.pipeline.connectors.postgres_source import PostgresChangesOptions, PostgresChangesSource
from ottla.spark.foreach_batch import exactly_once
from ottla.spark.java import prepare
from ottla.testing.postgres import running_postgres

RECORDS = int(os.environ.get("OTTLA_BENCH_SPARK_RECORDS", 10_000_000))
PARTITIONS, SIZE = 4, 100
CHANGES_A_SECOND, CAPTURED_S = 5_000, 40
Figures = dict[str, Any]


def spark() -> Any:
    from pyspark.sql import SparkSession

    prepare(local=True)
    builder = SparkSession.builder.master("local[*]").appName("ottla bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "3g")
    builder = builder.config("spark.driver.maxResultSize", "2g").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@contextmanager
def _node(folder: Path) -> Iterator[OttlaNode]:
    node = OttlaNode(folder / "node")
    node.format()
    node.start()
    try:
        yield node
    finally:
        node.stop()


def topic_to_delta(folder: Path) -> Figures:
    """A stream, in micro-batches of a fifth of the records."""
    with _node(folder) as node:
        for name, records in (("warm", RECORDS // 20), ("clicks", RECORDS)):
            node.create_topic(name, PARTITIONS)
            load.run("batched", node.bootstrap, topic=name, partitions=PARTITIONS, size=SIZE, records=records)
        os.sync()
        took = {name: _stream_to_delta(node, name, folder) for name in ("warm", "clicks")}
    from deltalake import DeltaTable

    written = DeltaTable(str(folder / "clicks")).count()
    assert written == RECORDS + PARTITIONS, f"{written} of {RECORDS} records"  # the load begins with one a partition
    return {"seconds": round(took["clicks"], 2), "rate": round(written / took["clicks"]), "bar": "rate >= 500000"}


def _stream_to_delta(node: OttlaNode, topic: str, folder: Path) -> float:
    out = DeltaSink(DeltaSinkOptions(delta=topic), Place("bench", "out", folder=folder))
    frame = (
        spark()
        .readStream.format("ottla")
        .option("kafka.bootstrap.servers", node.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", RECORDS // 5)
        .load()
    )
    writer = frame.writeStream.foreachBatch(lambda rows, number: out.write(rows, Batch(topic, number)))
    began = time.perf_counter()
    query = writer.option("checkpointLocation", str(folder / f"{topic}-checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return time.perf_counter() - began


def upsert(folder: Path) -> Figures:
    """A tenth of the records change a table of half of them: most are updates, some inserts, some deletes."""
    rows, changes = RECORDS // 2, RECORDS // 10
    table = DeltaSink(DeltaSinkOptions(delta="table", write="upsert", key=("id",)), Place("b", "o", folder=folder))
    text = "substring(repeat(sha2(CAST(id * {salt} AS STRING), 256), 2), 1, 100) AS text"
    frame = spark().range(rows).selectExpr("id", text.format(salt=7), "id % 100 AS n")
    DeltaSink(DeltaSinkOptions(delta="table"), Place("b", "o", folder=folder)).write(frame, Batch("load", 0))
    scattered = spark().range(changes).selectExpr(f"(id * 7919) % {rows + changes // 10} AS id")
    changed = scattered.selectExpr(
        "id", f"IF(id % 20 = 0, NULL, {text.format(salt=9)[:-8]}) AS text", "IF(id % 20 = 0, NULL, 0L) AS n"
    )
    table.write(changed.limit(1000), Batch("warm", 0))
    began = time.perf_counter()
    table.write(changed, Batch("changes", 0))
    seconds = time.perf_counter() - began
    return {"seconds": round(seconds, 2), "rows": rows, "changes": changes, "bar": "seconds <= 30"}


def capture(folder: Path) -> Figures:
    """Changes at a fixed rate in transactions of 50, from PostgreSQL to a topic, exactly once; from each transaction's
    commit until a reader of what is committed has it."""
    with _node(folder) as node, running_postgres() as postgres:
        node.create_topic("changes", PARTITIONS)
        import psycopg

        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, sent double precision, text text)")
            connection.execute("INSERT INTO accounts SELECT n, 0, repeat('x', 80) FROM generate_series(1, 10000) n")
        options = PostgresChangesOptions(postgres_changes=postgres.dsn, tables=("accounts",))
        frame = PostgresChangesSource(options, Place("bench", "in")).stream(spark()).select("key", "value")
        target = {"kafka.bootstrap.servers": node.bootstrap, "topic": "changes"}
        writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.foreachBatch(exactly_once(target)).start()
        try:
            query.processAllAvailable()
            took, sent = _captured(node, postgres.dsn)
        finally:
            query.stop()
    took = took[len(took) // 8 :]  # the first are late: Spark is not warm
    ordered = sorted(took)
    return {
        "changes_a_second": round(sent / CAPTURED_S),
        "p50_s": round(statistics.median(ordered), 2),
        "p99_s": round(ordered[len(ordered) * 99 // 100], 2),
        "bar": f"p50_s <= 2 at {CHANGES_A_SECOND}",
    }


def _captured(node: OttlaNode, dsn: str) -> tuple[list[float], int]:
    from confluent_kafka import Consumer

    took: list[float] = []
    ended = threading.Event()

    def receive() -> None:
        settings = {"bootstrap.servers": node.bootstrap, "group.id": "bench", "isolation.level": "read_committed"}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "log_level": 0})
        consumer.subscribe(["changes"])
        while not ended.is_set():
            for message in consumer.consume(5000, 0.2):
                value = message.value()
                if value is not None and (at := json.loads(value)["sent"]):
                    took.append(time.time() - at)
        consumer.close()

    receiving = threading.Thread(target=receive)
    receiving.start()
    sent = _change(dsn)
    deadline = time.monotonic() + 60
    while len(took) < sent and time.monotonic() < deadline:
        time.sleep(0.2)
    ended.set()
    receiving.join()
    assert len(took) == sent, f"{len(took)} of {sent} changes"
    return took, sent


def _change(dsn: str) -> int:
    import psycopg

    sent, began = 0, time.monotonic()
    with psycopg.connect(dsn, autocommit=True) as connection:
        while (passed := time.monotonic() - began) < CAPTURED_S:
            if sent > passed * CHANGES_A_SECOND:
                time.sleep(0.005)
                continue
            first = sent % 10_000 + 1
            connection.execute(
                "UPDATE accounts SET sent = extract(epoch FROM clock_timestamp()) WHERE id BETWEEN %s AND %s",
                (first, first + 49),
            )
            sent += 50
    return sent


PARTS: dict[str, Callable[[Path], Figures]] = {"topic to Delta": topic_to_delta, "upsert": upsert, "capture": capture}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    for name, part in PARTS.items():
        if only in name:
            with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
                print(json.dumps({"part": name, **part(Path(folder))}), flush=True)


if __name__ == "__main__":
    main()
