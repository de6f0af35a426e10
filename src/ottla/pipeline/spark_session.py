"""The Spark that a pipeline runs on: what its resources say, and state in RocksDB with a changelog."""

from __future__ import annotations

from typing import Final

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.port import SparkSession
from ottla.pipeline.spec import Resources

_ALWAYS: Final = {
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"


def started(name: str, resources: Resources, *, brief: bool = False) -> SparkSession:
    """`brief`: for seconds, so that to compile code for speed, or to look at it closely, would take the longest."""
    try:
        from pyspark.sql import SparkSession as Spark
    except ImportError:
        raise OttlaError('pipelines need PySpark: `pip install "ottla[pipelines]"`') from None
    from ottla.spark.java import BRIEF, prepare

    prepare(local=resources.master.startswith("local["))
    memory = f"{max(resources.memory.bytes >> 20, 256)}m"
    builder = Spark.builder.master(resources.master).appName(name)
    settings = {
        **_ALWAYS,
        "spark.driver.memory": memory,
        "spark.executor.memory": memory,
        "spark.sql.shuffle.partitions": str(resources.partitions),
        **(resources.spark or {}),
    }
    if brief:
        settings[_JAVA_OPTIONS] = f"{BRIEF} {settings.get(_JAVA_OPTIONS, '')}".strip()
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    return session
