"""Tasks write rows as files; the driver is told of them, and decides what they are part of.

Files of tasks that were tried again or run twice have names of their own, and nobody is told of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.parquet_stats import NO_STATS, Stats, stats_of
from ottla.pipeline.connectors.storage import Location, Upload, first_line, uploading
from ottla.pipeline.connectors.task_errors import from_tasks

if TYPE_CHECKING:
    import pyarrow as pa

_LISTED: Final = "path STRING, size BIGINT, rows BIGINT, partition STRING, stats STRING"
_ROW_GROUP_BYTES: Final = 64 << 20
_ROW_GROUP_ROWS: Final = 1 << 20
_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]")
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


class Part(NamedTuple):
    path: str
    """Below the location, as the store knows it."""
    size: int
    rows: int
    partition: Mapping[str, str | None]
    stats: Stats


@dataclass(frozen=True, slots=True)
class Writing:
    """What tasks are told."""

    location: Location
    schema: pa.Schema
    """Of the files, and of the columns that are folders."""
    format: str = "parquet"
    partition_by: tuple[str, ...] = ()
    compression: str = "zstd"
    max_file_bytes: int = 256 << 20
    prefix: str = "part"
    suffix: str = ".parquet"
    folder: str = ""
    plain_folders: bool = False
    """For a format that keeps the values elsewhere, and where each layer has its own idea of how to write a path."""

    def columns_in_files(self) -> list[str]:
        return [name for name in self.schema.names if name not in self.partition_by]


def write_parts(rows: Any, writing: Writing) -> list[Part]:
    """Rows of a DataFrame as files, each task's by itself."""
    with from_tasks():
        listed = rows.mapInArrow(_writing(writing), _LISTED).collect()
    return [Part(row.path, row.size, row.rows, json.loads(row.partition), json.loads(row.stats)) for row in listed]


def _writing(writing: Writing) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        parts = written(batches, writing)
        columns = [
            pa.array([part.path for part in parts], pa.string()),
            pa.array([part.size for part in parts], pa.int64()),
            pa.array([part.rows for part in parts], pa.int64()),
            pa.array([json.dumps(part.partition) for part in parts], pa.string()),
            pa.array([json.dumps(part.stats) for part in parts], pa.string()),
        ]
        yield pa.record_batch(columns, names=[column.split()[0] for column in _LISTED.split(", ")])

    return write


def written(batches: Iterator[pa.RecordBatch], writing: Writing) -> list[Part]:
    """What one task does."""
    from pyspark import TaskContext

    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    store = writing.location.open()
    open_files: dict[tuple[str | None, ...], _File] = {}
    parts: list[Part] = []
    try:
        for batch in batches:
            for values, rows in split(aligned(batch, writing.schema), writing.partition_by):
                file = open_files.get(values)
                if file is None:
                    file = open_files[values] = _File(writing, store, values, task)
                file.add(rows)
                if file.is_full():
                    parts.append(open_files.pop(values).finish())
        parts.extend(file.finish() for file in open_files.values())
    except (OSError, MemoryError) as error:
        raise OttlaError(f"{writing.location.url} cannot be written to: {first_line(error)}") from error
    return parts


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """With these columns in this order: those that it lacks are null, and types are widened."""
    import pyarrow as pa

    columns = []
    for want in schema:
        found = batch.schema.get_field_index(want.name)
        if found < 0:
            columns.append(pa.nulls(batch.num_rows, want.type))
        else:
            column = batch.column(found)
            columns.append(column if column.type == want.type else column.cast(want.type))
    return pa.record_batch(columns, schema=schema)


def split(
    batch: pa.RecordBatch, partition_by: Sequence[str]
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """By the values of these columns, as texts, without the columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    if not partition_by:
        yield (), batch
        return
    keys = pa.table({name: partition_text(batch.column(name)) for name in partition_by})
    rest = batch.select([name for name in batch.schema.names if name not in partition_by])
    first = keys.group_by(list(partition_by), use_threads=False).aggregate([]).to_pylist()
    for values in first:
        chosen = None
        for name, value in values.items():
            column = keys.column(name).combine_chunks()
            same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
            chosen = same if chosen is None else pc.and_(chosen, same)
        yield tuple(values[name] for name in partition_by), rest.filter(chosen)


def partition_text(column: pa.Array) -> pa.Array:
    """As Hive, Delta and Iceberg write values into names of folders."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(column.cast(pa.timestamp("us")), "%Y-%m-%d %H:%M:%S")
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise OttlaError(f"rows cannot be partitioned by values of type {kind}")
    return column.cast(pa.string())


def folder_of(names: Sequence[str], values: Sequence[str | None]) -> str:
    """As Hive names folders, so that readers find the values again; but see `plain_folders`."""
    return "".join(
        f"{quote(name, safe='')}={NULL_FOLDER if value is None else quote(value, safe='')}/"
        for name, value in zip(names, values, strict=True)
    )


def plain_folder_of(names: Sequence[str], values: Sequence[str | None]) -> str:
    return "".join(
        f"{_ODD.sub('_', name)}={NULL_FOLDER if value is None else _ODD.sub('_', value[:64])}/"
        for name, value in zip(names, values, strict=True)
    )


class _File:
    """One that is being written; rows are gathered to row groups of a size that readers like."""

    def __init__(self, writing: Writing, store: Any, values: tuple[str | None, ...], task: int) -> None:
        import pyarrow as pa

        name = f"{writing.prefix}-{task:05}-{uuid4().hex[:12]}{writing.suffix}"
        folders = plain_folder_of if writing.plain_folders else folder_of
        self.path = writing.folder + folders(writing.partition_by, values) + name
        self._partition = dict(zip(writing.partition_by, values, strict=True))
        self._limit = writing.max_file_bytes
        self._uploading = uploading(store, self.path)
        self._upload: Upload = self._uploading.__enter__()
        schema = pa.schema([writing.schema.field(name) for name in writing.columns_in_files()])
        self._writer = _WRITERS[writing.format](pa.PythonFile(self._upload, mode="w"), schema, writing.compression)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = self._waiting_rows = self._rows = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        self._waiting_rows += rows.num_rows
        if self._waiting_bytes >= _ROW_GROUP_BYTES or self._waiting_rows >= _ROW_GROUP_ROWS:
            self._write()

    def is_full(self) -> bool:
        return self._upload.size >= self._limit

    def finish(self) -> Part:
        self._write()
        stats = self._writer.close()
        self._uploading.__exit__(None, None, None)
        return Part(self.path, self._upload.size, self._rows, self._partition, stats)

    def _write(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write(pa.Table.from_batches(self._waiting))
            self._rows += self._waiting_rows
            self._waiting, self._waiting_bytes, self._waiting_rows = [], 0, 0


class _Parquet:
    def __init__(self, file: Any, schema: pa.Schema, compression: str) -> None:
        import pyarrow.parquet as pq

        self._footers: list[Any] = []
        self._writer = pq.ParquetWriter(
            file,
            schema,
            compression=None if compression == "none" else compression,
            compression_level=1 if compression == "zstd" else None,
            use_dictionary=True,
            store_schema=False,
            metadata_collector=self._footers,
        )

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=rows.num_rows)

    def close(self) -> Stats:
        self._writer.close()
        return stats_of(self._footers[0]) if self._footers else NO_STATS


class _Csv:
    """With a line of names; null is nothing, an empty text is two quotes."""

    def __init__(self, file: Any, schema: pa.Schema, compression: str) -> None:
        import pyarrow as pa
        import pyarrow.csv

        for column in schema:
            if pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
                raise OttlaError(
                    f"column {column.name} of type {column.type} cannot be written as CSV; "
                    "to_json() or base64() in a step makes text of it"
                )
        self._out = file if compression == "none" else pa.CompressedOutputStream(file, compression)
        self._writer = pyarrow.csv.CSVWriter(self._out, schema)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows)

    def close(self) -> Stats:
        self._writer.close()
        if not self._out.closed:
            self._out.close()
        return NO_STATS


class _Json:
    """One object a line; the column `json` has them already."""

    def __init__(self, file: Any, schema: pa.Schema, compression: str) -> None:
        import pyarrow as pa

        self._out = file if compression == "none" else pa.CompressedOutputStream(file, compression)

    def write(self, rows: pa.Table) -> None:
        import numpy as np
        import pyarrow.compute as pc

        for chunk in rows.column("json").chunks:
            lines = pc.binary_join_element_wise(chunk, "", "\n")  # each with an end, in one piece of memory
            _, offsets, text = lines.buffers()
            ends = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
            self._out.write(text.slice(int(ends[0]), int(ends[-1] - ends[0])))

    def close(self) -> Stats:
        self._out.close()
        return NO_STATS


_WRITERS: Final[Mapping[str, Any]] = {"parquet": _Parquet, "csv": _Csv, "json": _Json}
