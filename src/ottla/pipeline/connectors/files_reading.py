"""Files as Spark reads them, by pyarrow, from a folder or an object store.

A stream's offset is a time and a name: files are taken in the order in which they were last modified, then by name. A
file that appears with a time before the offset would be missed, so that the youngest are left for later: stores and
clocks tell times to the second, and writers need a while.
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
from ottla.pipeline.connectors.files_sink import is_own
from ottla.pipeline.connectors.packing import Task, tasks
from ottla.pipeline.connectors.parquet_reading import open_file, read_files, with_values
from ottla.pipeline.connectors.parts import NULL_FOLDER, aligned
from ottla.pipeline.connectors.storage import Location, first_line, listed

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "ottla-files"
_YOUNG_S: Final = 2.0
_BYTES_A_TASK: Final = 64 << 20
_IDLE_S: Final = 0.5  # Spark asks again at once, and a store has its price


class File(NamedTuple):
    modified: float
    path: str
    size: int

    @property
    def values(self) -> dict[str, str | None]:
        """What the names of its folders say."""
        pairs = [part.split("=", 1) for part in self.path.split("/")[:-1] if "=" in part]
        return {unquote(name): None if value == NULL_FOLDER else unquote(value) for name, value in pairs}


@dataclass(frozen=True, slots=True)
class Reading:
    location: Location
    format: str
    max_files: int

    def to_options(self) -> dict[str, str]:
        return {"reading": json.dumps([self.location.url, dict(self.location.options), self.format, self.max_files])}

    @staticmethod
    def from_options(options: Mapping[str, str]) -> Reading:
        url, storage, kind, max_files = json.loads(options["reading"])
        return Reading(Location(url, storage), kind, max_files)

    def files(self) -> list[File]:
        found = [
            File(one.modified, one.path, one.size)
            for one in listed(self.location.open())
            if not is_own(one.path) and f".{self.format}" in one.path.rpartition("/")[2]
        ]
        return sorted(found)


class FileRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    @property
    def _reading(self) -> Reading:
        return Reading.from_options(self.options)

    def schema(self) -> Any:
        """Of the newest file, if nobody has said what it is; only Parquet tells."""
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import from_arrow_schema

        files = self._reading.files()
        if not files:
            raise OttlaError(f"there are no files in {self._reading.location.url} yet: schema must say what they have")
        with open_file(self._reading.location, files[-1].path) as file:
            inside = pq.read_schema(file)
        return from_arrow_schema(pa.schema([*inside, *(pa.field(name, pa.string()) for name in files[-1].values)]))

    def reader(self, schema: Any) -> AllReader:
        from ottla.pipeline.connectors.arrow_types import arrow_schema

        return AllReader(self._reading, arrow_schema(schema))

    def streamReader(self, schema: Any) -> ComingReader:
        from ottla.pipeline.connectors.arrow_types import arrow_schema

        return ComingReader(self._reading, arrow_schema(schema))


class AllReader(DataSourceReader):
    def __init__(self, reading: Reading, schema: pa.Schema) -> None:
        self.reading = reading
        self.wanted = schema

    def partitions(self) -> list[Task[File]]:
        return tasks(self.reading.files(), _BYTES_A_TASK)

    def read(self, partition: Task[File]) -> Iterator[pa.RecordBatch]:
        return read_rows(self.reading, partition.files, self.wanted)


class ComingReader(DataSourceStreamReader):
    def __init__(self, reading: Reading, schema: pa.Schema) -> None:
        self.reading = reading
        self.wanted = schema

    def initialOffset(self) -> dict[str, Any]:
        return {"modified": 0.0, "path": ""}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        assert start is not None
        before = time.time() - _YOUNG_S
        waiting = [file for file in self.reading.files() if _place(start) < file[:2] and file.modified < before]
        if not waiting:
            time.sleep(_IDLE_S)
            return dict(start)
        last = waiting[: self.reading.max_files][-1]
        return {"modified": last.modified, "path": last.path}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Task[File]]:
        coming = (file for file in self.reading.files() if _place(start) < file[:2] <= _place(end))
        return tasks(coming, _BYTES_A_TASK)

    def read(self, partition: Task[File]) -> Iterator[pa.RecordBatch]:
        return read_rows(self.reading, partition.files, self.wanted)


def _place(offset: Mapping[str, Any]) -> tuple[float, str]:
    return (offset["modified"], offset["path"])


def read_rows(reading: Reading, files: list[File], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for file in files:
        values = {name: value for name, value in file.values.items() if name in schema.names}
        try:
            if reading.format == "parquet":
                yield from read_files(reading.location, [(file.path, values)], schema)
            else:
                for batch in _text_batches(reading, file, schema, values):
                    yield aligned(with_values(batch, values, schema), schema)
        except (OSError, pa.ArrowInvalid) as error:
            raise OttlaError(f"{file.path} in {reading.location.url} cannot be read: {first_line(error)}") from error


def _text_batches(
    reading: Reading, file: File, schema: pa.Schema, values: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json

    inside = pa.schema([field for field in schema if field.name not in values])
    compression = "gzip" if file.path.endswith(".gz") else "zstd" if file.path.endswith(".zst") else None
    with open_file(reading.location, file.path) as raw:
        if not file.size:
            return
        stream = raw if compression is None else pa.CompressedInputStream(raw, compression)
        if reading.format == "csv":
            options = pyarrow.csv.ConvertOptions(
                column_types=inside,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
                include_columns=inside.names,
                include_missing_columns=True,
            )
            parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
            yield from pyarrow.csv.read_csv(stream, convert_options=options, parse_options=parsing).to_batches()
        else:
            parsing = pyarrow.json.ParseOptions(explicit_schema=inside, unexpected_field_behavior="ignore")
            yield from pyarrow.json.read_json(stream, parse_options=parsing).to_batches()
