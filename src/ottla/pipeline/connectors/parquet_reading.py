"""Parquet files of a folder or an object store, as Arrow with the columns that are wanted."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.connectors.parts import aligned
from ottla.pipeline.connectors.storage import Location, read_bytes

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS: Final = 32_768


def read_files(
    where: Location, files: Iterable[tuple[str, Mapping[str, str | None]]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Paths below the location, and values that stand for the whole file."""
    import pyarrow.parquet as pq

    for path, values in files:
        with open_file(where, path) as file:
            read = pq.ParquetFile(file)
            names = set(read.schema_arrow.names)
            for batch in read.iter_batches(_ROWS, columns=[name for name in schema.names if name in names]):
                yield aligned(with_values(batch, values, schema), schema)


def with_values(batch: pa.RecordBatch, values: Mapping[str, str | None], schema: pa.Schema) -> pa.RecordBatch:
    """With columns that have the same value in every row."""
    import pyarrow as pa

    for name, text in values.items():
        kind = schema.field(name).type
        column = pa.nulls(batch.num_rows, kind) if text is None else _repeated(text, kind, batch.num_rows)
        batch = batch.append_column(name, column)
    return batch


def open_file(where: Location, path: str) -> Any:
    import pyarrow as pa

    if where.is_folder:
        return pa.memory_map(posixpath.join(where.url, path))
    return pa.BufferReader(pa.py_buffer(read_bytes(where.open(), path)))


def _repeated(text: str, kind: pa.DataType, rows: int) -> pa.Array:
    import pyarrow as pa

    one = pa.array([text])
    if pa.types.is_timestamp(kind):
        one = one.cast(pa.timestamp("us")).cast(kind) if kind.tz is None else _in_utc(one, kind)
    else:
        one = one.cast(kind)
    return pa.repeat(one[0], rows)


def _in_utc(text: pa.Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.replace_substring_regex(text, r"(Z|\+00(:00)?)$", "")
    return pc.assume_timezone(plain.cast(pa.timestamp("us")), "UTC").cast(kind)
