"""The connectors, by the name that a spec calls them; each is imported when a spec uses it."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from ottla.pipeline.connectors.port import Sink, Source

_HERE: Final = "ottla.pipeline.connectors"

SOURCES: Final = {
    "topic": f"{_HERE}.topic_source:TopicSource",
    "table": f"{_HERE}.topic_table:TopicTable",
    "delta": f"{_HERE}.delta_source:DeltaSource",
    "files": f"{_HERE}.files_source:FilesSource",
    "iceberg": f"{_HERE}.iceberg_source:IcebergSource",
    "postgres": f"{_HERE}.postgres_source:PostgresSource",
    "postgres-changes": f"{_HERE}.postgres_source:PostgresChangesSource",
    "spark": f"{_HERE}.any_spark:SparkSource",
}
SINKS: Final = {
    "topic": f"{_HERE}.topic_sink:TopicSink",
    "delta": f"{_HERE}.delta_sink:DeltaSink",
    "files": f"{_HERE}.files_sink:FilesSink",
    "http": f"{_HERE}.http_sink:HttpSink",
    "iceberg": f"{_HERE}.iceberg_sink:IcebergSink",
    "postgres": f"{_HERE}.postgres_sink:PostgresSink",
    "spark": f"{_HERE}.any_spark:SparkSink",
}


def source(name: str) -> type[Source]:
    found = _imported(SOURCES[name])
    assert issubclass(found, Source)
    return found


def sink(name: str) -> type[Sink]:
    found = _imported(SINKS[name])
    assert issubclass(found, Sink)
    return found


def _imported(where: str) -> type:
    module, _, name = where.partition(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, type)
    return found
