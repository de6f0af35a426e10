"""A Spark for tests: local, two cores, tasks tried up to three times, as quiet and quick to start as it can be.

With the official Kafka connector where its jars are, so that `format("kafka")` is there too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.spark.java import BRIEF, prepare
from ottla.testing import spark_connector


@contextmanager
def running_spark(folder: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    prepare(local=True)
    builder = SparkSession.builder.master("local[2, 3]")
    if spark_connector.available():
        builder = builder.config("spark.jars", ",".join(map(str, spark_connector.connector_jars())))
    spark = (
        builder.appName("ottla tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"{BRIEF} -Dderby.system.home={folder}")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
