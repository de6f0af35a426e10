"""Spark reads a tiered topic straight from the store, and through the broker."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.nodes import Node
from bench.s3_gateway import gateway, settings
from bench.tiered import COLD, PARTITIONS, RECORD, first_start, in_tier, produce
from ottla.spark.java import prepare

RECORDS = int(os.environ.get("OTTLA_BENCH_TIER_SPARK_RECORDS", 5_000_000))
WARM_UP = 50_000
_ROUNDS = 3


def _session() -> Any:
    from pyspark.sql import SparkSession

    prepare()
    builder = SparkSession.builder.master("local[*]").appName("ottla bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "3g")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _read(spark: Any, node: Node, topic: str, tier: dict[str, str]) -> tuple[int, int]:
    """How many records, and their bytes: nothing that is read can be left out."""
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", node.bootstrap).option("subscribe", topic)
    for name, value in tier.items():
        reader = reader.option(name, value)
    (found,) = reader.load().selectExpr("count(*)", "sum(length(value))").collect()
    return int(found[0]), int(found[1])


def read_with_spark(node: Node, number: int) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        store = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-s3-")))
        port = stack.enter_context(gateway(store))
        memory = first_start(node, port)
        tier = {name.replace("rsm.config.", "tier."): value for name, value in settings(port).items()}
        for topic, records in (("few", WARM_UP), ("many", RECORDS)):
            produce(node, topic, COLD, records)
            in_tier(node, topic)
        spark = _session()
        stack.callback(spark.stop)
        ways: dict[str, dict[str, str]] = {"spark, straight": tier, "spark, through the broker": {}}
        found: dict[str, dict[str, Any]] = {}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        shares: dict[str, list[float]] = {way: [] for way in ways}
        for given in ways.values():
            _read(spark, node, "few", given)
        for turn in range(1 + _ROUNDS):  # Java compiles what it runs often: the first does not count
            for way in list(ways)[:: 1 if turn % 2 == 0 else -1]:
                began, cpu = time.perf_counter(), node.cpu_seconds()
                read = _read(spark, node, "many", ways[way])
                took = time.perf_counter() - began
                written = RECORDS + PARTITIONS  # the load begins with a record for each partition
                if read[0] != written:
                    raise RuntimeError(f"{way}: {read[0]} records of {written}")
                if turn:
                    seconds[way].append(took)
                    shares[way].append((node.cpu_seconds() - cpu) / took)
        for way in ways:
            took = statistics.median(seconds[way])
            found[way] = {
                "seconds": round(took, 2), "mb_per_second": round(RECORDS * RECORD / took / 1e6, 1),
                "broker_share": round(statistics.median(shares[way]), 3),
            }  # fmt: skip
        straight, through = found.values()
        found["spark"] = {
            "ratio": round(through["seconds"] / straight["seconds"], 2), "broker_share": straight["broker_share"],
            "memory_mb": memory.end(),
        }  # fmt: skip
        node.stop()
        return found
