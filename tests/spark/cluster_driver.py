"""A driver on a Spark cluster, which starts slow tasks a second time.

python cluster_driver.py MASTER BOOTSTRAP SOURCE TARGET FOLDER driver|executors
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ottla.spark.foreach_batch import exactly_once
from ottla.spark.java import prepare

SLOW_S = 60.0  # far longer than a second try takes


def slow_once(folder: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The first who computes the first partition gives all its rows, and then does not come to an end."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        tries = folder / f"try-{context.stageId()}-{context.partitionId()}-{context.attemptNumber()}"
        tries.touch()
        if context.partitionId() == 0 and context.attemptNumber() == 0:
            time.sleep(SLOW_S)

    return work


def main(master: str, bootstrap: str, source: str, target: str, folder: Path, writes: str) -> None:
    from pyspark.sql import SparkSession

    prepare()
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.2",
        "spark.speculation.minTaskRuntime": "1s",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest").option("minPartitions", 4)
    frame = reader.load().select("key", "value")
    frame = frame.mapInArrow(slow_once(folder), frame.schema)
    options = {"kafka.bootstrap.servers": bootstrap, "topic": target}
    if writes == "executors":
        writer = frame.writeStream.foreachBatch(exactly_once(options))
    else:
        writer = frame.writeStream.format("ottla").options(**options)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4], Path(sys.argv[5]), sys.argv[6])
