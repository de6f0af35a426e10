"""A Delta Lake table as Spark reads it: its files, found by delta-rs, read into Arrow by tasks.

A stream's offset is a version of the table. Its first micro-batch has all rows of a version, later ones the files
that the log's entries since then have added.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.delta_sink import open_table
from ottla.pipeline.connectors.packing import Task, tasks
from ottla.pipeline.connectors.parquet_reading import read_files
from ottla.pipeline.connectors.storage import Location, first_line, read_bytes

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "ottla-delta"
_UNREADABLE: Final = {"deletionVectors": "deletion vectors", "columnMapping": "mapped columns"}
_BYTES_A_TASK: Final = 128 << 20
_IDLE_S: Final = 0.5  # Spark asks again at once, and a store has its price


class File(NamedTuple):
    path: str
    size: int
    partition: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """Sent to tasks as JSON."""

    location: Location
    only_new: bool
    ignore_changes: bool

    def to_options(self) -> dict[str, str]:
        told = [self.location.url, dict(self.location.options), self.only_new, self.ignore_changes]
        return {"reading": json.dumps(told)}

    @staticmethod
    def from_options(options: Mapping[str, str]) -> Reading:
        url, storage, only_new, ignore_changes = json.loads(options["reading"])
        return Reading(Location(url, storage), only_new, ignore_changes)

    def table(self) -> Any:
        found = open_table(self.location)
        if found is None:
            raise OttlaError(f"there is no Delta table at {self.location.url}")
        for feature in found.protocol().reader_features or ():
            if feature in _UNREADABLE:
                raise OttlaError(
                    f"the Delta table {self.location.url} has {_UNREADABLE[feature]}, which is not read yet"
                )
        return found


class DeltaRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    @property
    def _reading(self) -> Reading:
        return Reading.from_options(self.options)

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        return from_arrow_schema(_schema(self._reading.table()))

    def reader(self, schema: Any) -> TableReader:
        from ottla.pipeline.connectors.arrow_types import arrow_schema

        return TableReader(self._reading, arrow_schema(schema))

    def streamReader(self, schema: Any) -> AppendedReader:
        from ottla.pipeline.connectors.arrow_types import arrow_schema

        return AppendedReader(self._reading, arrow_schema(schema))


class TableReader(DataSourceReader):
    def __init__(self, reading: Reading, schema: pa.Schema) -> None:
        self.reading = reading
        self.schema = schema

    def partitions(self) -> list[Task[File]]:
        return tasks(files_of(self.reading.table()), _BYTES_A_TASK)

    def read(self, partition: Task[File]) -> Iterator[pa.RecordBatch]:
        return _read(self.reading, partition.files, self.schema)


class AppendedReader(DataSourceStreamReader):
    def __init__(self, reading: Reading, schema: pa.Schema) -> None:
        self.reading = reading
        self.schema = schema

    def initialOffset(self) -> dict[str, Any]:
        return {"version": self.reading.table().version() if self.reading.only_new else -1}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        version = self.reading.table().version()
        if start is not None and start["version"] == version:
            time.sleep(_IDLE_S)
        return {"version": version}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Task[File]]:
        if start["version"] < 0:
            table = self.reading.table()
            table.load_as_version(end["version"])
            return tasks(files_of(table), _BYTES_A_TASK)
        store = self.reading.location.open()
        versions = range(start["version"] + 1, end["version"] + 1)
        return tasks((file for version in versions for file in self._added(store, version)), _BYTES_A_TASK)

    def _added(self, store: Any, version: int) -> list[File]:
        try:
            text = read_bytes(store, f"_delta_log/{version:020}.json").decode()
        except FileNotFoundError as error:
            raise OttlaError(
                f"version {version} of the Delta table {self.reading.location.url} is no longer in its log: the "
                "stream was away for longer than the log is kept. Start anew: ottla pipeline replay"
            ) from error
        actions = [json.loads(line) for line in text.splitlines() if line]
        removed = any(action["remove"].get("dataChange", True) for action in actions if "remove" in action)
        if removed and not self.reading.ignore_changes:
            raise OttlaError(
                f"version {version} of the Delta table {self.reading.location.url} changes or deletes rows; changes: "
                "ignore leaves such versions out"
            )
        added = [action["add"] for action in actions if "add" in action]
        return [
            File(unquote(add["path"]), add["size"], add.get("partitionValues") or {})
            for add in added
            if add.get("dataChange", True) and not removed
        ]

    def read(self, partition: Task[File]) -> Iterator[pa.RecordBatch]:
        return _read(self.reading, partition.files, self.schema)


def files_of(table: Any) -> list[File]:
    names = table.metadata().partition_columns
    found = []
    for add in table.get_add_actions(flatten=False).to_struct_array().to_pylist():
        values = add.get("partition") or add.get("partition_values") or {}
        told = {name: None if (value := values.get(name)) is None else _text(value) for name in names}
        found.append(File(add["path"], add["size_bytes"], told))
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _read(reading: Reading, files: list[File], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_files(reading.location, [(file.path, file.partition) for file in files], schema)
    except OSError as error:
        raise OttlaError(f"the Delta table {reading.location.url} cannot be read: {first_line(error)}") from error


def _schema(table: Any) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())
