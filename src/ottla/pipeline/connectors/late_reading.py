"""Tables that are read anew for every micro-batch.

Spark plans a Python data source once for a query, and asks nobody again: a table that is joined with a stream would
stay as it was when the query was started. So one task does both, the planning and the reading, whenever it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.pipeline.connectors.port import DataFrame, SparkSession

FORMAT: Final = "ottla-table"
_KIND, _OPTIONS = "kind", "given"


def read_late(
    spark: SparkSession, kind: type[DataSource], options: Mapping[str, str], schema: str | None = None
) -> DataFrame:
    """What `spark.read.format(kind)` reads, as it is when a task looks at it."""
    spark.dataSource.register(LateRows)
    given = {_KIND: f"{kind.__module__}:{kind.__qualname__}", _OPTIONS: json.dumps(dict(options))}
    reader = spark.read.format(FORMAT).options(**given)
    return (reader if schema is None else reader.schema(schema)).load()


class LateRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def _inner(self) -> Any:
        from importlib import import_module

        module, _, name = self.options[_KIND].partition(":")
        return getattr(import_module(module), name)(json.loads(self.options[_OPTIONS]))

    def schema(self) -> Any:
        return self._inner().schema()

    def reader(self, schema: Any) -> LateReader:
        return LateReader(self._inner().reader(schema))


class LateReader(DataSourceReader):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        for one in self._inner.partitions():
            yield from self._inner.read(one)
