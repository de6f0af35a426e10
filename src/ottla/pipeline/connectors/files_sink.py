"""Files in a folder or an object store, each micro-batch exactly once, for readers that know nothing of it.

Tasks write files below `_ottla`, which readers leave alone, under names that no format has. When all are there, the
driver writes down which ones are the batch: a file that can be made once only, so that of two drivers one decides.
Then they are moved to where readers see them. Whoever finds such a decision and not its end, moves what is left.
"""

from __future__ import annotations

import hashlib
import json
import logging
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.arrow_types import arrow_schema
from ottla.pipeline.connectors.changes import check_columns, not_written
from ottla.pipeline.connectors.parts import Writing, write_parts
from ottla.pipeline.connectors.port import Batch, DataFrame, Sink, StructType
from ottla.pipeline.connectors.storage import (
    STORAGE_DOC,
    Location,
    create,
    delete,
    first_line,
    listed,
    location,
    read_json,
    rename,
)
from ottla.pipeline.options import Size, option
from ottla.pipeline.problems import Problem

_log = logging.getLogger("ottla.pipeline")
_OWN: Final = "_ottla"
FORMATS: Final = ("parquet", "json", "csv")
_SUFFIXES: Final = {"gzip": ".gz", "zstd": ".zst"}
_DECISIONS_KEPT: Final = 10


@dataclass(frozen=True, slots=True)
class FilesSinkOptions:
    files: str = option("A folder, or the URL of one in an object store.", example="s3://lake/clicks")
    format: str = option("json has an object a line; csv has a line of names.", "parquet", choices=FORMATS)
    partition_by: tuple[str, ...] = option("Columns whose values become names of folders, as `day=2026-01-02`.", ())
    compression: str | None = option(
        "Of the files; parquet has zstd unless said, json and csv none.",
        None,
        choices=("zstd", "snappy", "gzip", "none"),
    )
    max_file: Size = option("A file that is larger is followed by another.", Size(256 << 20))
    storage: Mapping[str, str] | None = option(STORAGE_DOC, None)


class FilesSink(Sink):
    options: ClassVar[type] = FilesSinkOptions
    doc: ClassVar[str] = (
        "Parquet, JSON or CSV files in a folder or an object store, each micro-batch exactly once. Readers see whole "
        "files only."
    )
    given: FilesSinkOptions

    @property
    def location(self) -> Location:
        return location(self.given.files, self.given.storage or {}, self.place)

    def check(self) -> Iterable[Problem]:
        if self.given.format != "parquet" and self.given.compression == "snappy":
            yield Problem(("compression",), "snappy is for parquet; take gzip or zstd")

    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        yield from check_columns([("partition-by", self.given.partition_by)], schema.fieldNames())
        if set(schema.fieldNames()) <= set(self.given.partition_by):
            yield Problem(("partition-by",), "there is no column left for the files")
        if self.given.format == "csv":
            for one in schema.fields:
                kind = one.dataType.typeName()
                if kind in ("binary", "struct", "map", "array") and one.name not in self.given.partition_by:
                    yield Problem(
                        ("format",), f"column {one.name} ({kind}) cannot be written as CSV: to_json() or base64() it"
                    )

    def write(self, rows: DataFrame, batch: Batch) -> None:
        try:
            self._write(rows, batch)
        except OSError as error:
            raise OttlaError(f"{self.location.url} cannot be written to: {first_line(error)}") from error

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        store = self.location.open()
        own = f"{_OWN}/{_name(batch.query)}"
        decision = f"{own}/{batch.id:020}.json"
        decided = [one.path for one in listed(store, own)]
        if any(path > decision for path in decided if path.endswith(".json")):
            _log.warning("batch %d of %s is in %s already", batch.id, batch.query, self.location.url)
            return
        moves = read_json(store, decision)
        if moves is None:
            for path in decided:  # of an attempt that came to nothing
                if path.startswith(f"{own}/{batch.id:020}/"):
                    delete(store, path)
            moves = self._staged(rows, batch, f"{own}/{batch.id:020}/")
            if not moves:
                return
            try:
                create(store, decision, json.dumps(moves).encode())
            except FileExistsError:  # another driver has decided
                for path in moves:
                    delete(store, path)
                moves = read_json(store, decision)
        finish(store, moves)
        for path in [path for path in decided if path.endswith(".json")][:-_DECISIONS_KEPT]:
            delete(store, path)

    def _staged(self, rows: DataFrame, batch: Batch, folder: str) -> dict[str, str]:
        """Files of this batch as they lie now, and where they belong."""
        given = self.given
        compression = given.compression or ("zstd" if given.format == "parquet" else "none")
        rows = rows.drop(*not_written(rows.columns, (), given.partition_by))
        if given.format == "json":
            rows = _as_json(rows, given.partition_by)
        writing = Writing(
            self.location,
            arrow_schema(rows.schema),
            format=given.format,
            partition_by=given.partition_by,
            compression=compression,
            max_file_bytes=given.max_file.bytes,
            prefix=f"{_name(batch.query)}-{batch.id:09}",
            suffix=".part",
            folder=folder,
        )
        ending = f".{given.format}" + (_SUFFIXES.get(compression, "") if given.format != "parquet" else "")
        found = {}
        for part in write_parts(rows, writing):
            found[part.path] = part.path.removeprefix(folder).removesuffix(".part") + ending
        return found


def finish(store: Any, moves: Mapping[str, str]) -> None:
    """Moves what is not moved yet; what is no longer where it was has been moved."""
    for staged, final in moves.items():
        try:
            rename(store, staged, final)
        except FileNotFoundError:
            continue


def _as_json(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    from pyspark.sql import functions as f

    inside = [f.col(f"`{name}`") for name in rows.columns if name not in partition_by]
    text = f.to_json(f.struct(*inside)).alias("json")
    return rows.select(*[f.col(f"`{name}`") for name in partition_by], text)


def _name(query: str) -> str:
    """A query as a part of a path."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", query)
    return plain if plain == query else f"{plain}-{hashlib.sha256(query.encode()).hexdigest()[:8]}"


def is_own(path: str) -> bool:
    """Whether a file is none of the readers' business."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.split(posixpath.sep))
