"""Rows of an Apache Iceberg table, for Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.iceberg_catalog import open_catalog, open_table
from ottla.pipeline.connectors.port import Place


def options_of(catalog: Any, name: str, place: Place) -> dict[str, str]:
    return {"catalog": json.dumps(dict(catalog or {})), "table": name, "folder": str(place.folder.absolute())}


class IcebergRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla-iceberg"

    def table(self) -> Any:
        place = Place("", "", folder=Path(self.options["folder"]))
        found = open_table(open_catalog(json.loads(self.options["catalog"]), place), self.options["table"])
        if found is None:
            raise OttlaError(f"there is no Iceberg table {self.options['table']}")
        return found

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(self.table().schema().as_arrow())

    def reader(self, schema: Any) -> TableReader:
        from ottla.pipeline.connectors.arrow_types import arrow_schema

        return TableReader(self, arrow_schema(schema))


class TableReader(DataSourceReader):
    def __init__(self, rows: IcebergRows, schema: Any) -> None:
        self._rows = rows
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        found = self._rows.table().scan().to_arrow()
        yield from found.select(self._schema.names).cast(self._schema).to_batches()
