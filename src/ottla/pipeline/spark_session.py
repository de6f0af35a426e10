"""The Spark that a pipeline runs on: what its resources say, and state in RocksDB with a changelog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.port import SparkSession
from ottla.pipeline.spec import Resources
from ottla.spark.class_archive import ClassArchive
from ottla.spark.java import BRIEF, prepare

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
_BRIEF: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
"""To make Java code of each plan, and compile it, takes longer than a few rows do without."""
_IN_MEMORY: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOCAL: Final = re.compile(r"local\[([^],]+)\]")
_TRIES: Final = 4
"""Of a task, as on a cluster: a Python process that is killed then costs its task, and not the whole run."""


def started(name: str, resources: Resources, *, brief: bool = False) -> SparkSession:
    """`brief`: for seconds, so that to compile code for speed, or to look at it closely, would take the longest."""
    java = _prepared(resources)
    archive = ClassArchive(java)
    if brief:
        return _made(name, resources, resources.master, _BRIEF, f"{BRIEF} {archive.using()}")
    master = _LOCAL.sub(rf"local[\1,{_TRIES}]", resources.master)
    return _made(name, resources, master, {}, archive.using())


@contextmanager
def trying(name: str, resources: Resources, *, keeps_state: bool = True) -> Iterator[SparkSession]:
    """A brief one, which leaves an archive of classes behind if there is none yet. `keeps_state`: whether a step needs
    RocksDB; others do what they do in memory too."""
    archive = ClassArchive(_prepared(resources))
    settings = _BRIEF if keeps_state else _BRIEF | _IN_MEMORY
    session = _made(name, resources, resources.master, settings, f"{BRIEF} {archive.making()}")
    try:
        yield session
    finally:
        session.stop()


def _prepared(resources: Resources) -> Path:
    """JAVA_HOME."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise OttlaError('pipelines need PySpark: `pip install "ottla[pipelines]"`') from None
    return prepare(local=resources.master.startswith("local["))


def _made(name: str, resources: Resources, master: str, more: Mapping[str, str], java: str) -> SparkSession:
    from pyspark.sql import SparkSession as Spark

    memory = f"{max(resources.memory.bytes >> 20, 256)}m"
    builder = Spark.builder.master(master).appName(name)
    settings = {
        **_ALWAYS,
        "spark.driver.memory": memory,
        "spark.executor.memory": memory,
        "spark.sql.shuffle.partitions": str(resources.partitions),
        **more,
        **(resources.spark or {}),
    }
    settings[_JAVA_OPTIONS] = f"{java} {settings.get(_JAVA_OPTIONS, '')}".strip()
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(settings["spark.log.level"])
    return session
