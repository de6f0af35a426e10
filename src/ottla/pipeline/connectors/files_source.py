"""Files of a folder or an object store as a source: all of them, or as a stream of those that come.

Files must be whole when they appear, and are not changed after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.files_sink import FORMATS
from ottla.pipeline.connectors.port import DataFrame, Shape, Source, SparkSession
from ottla.pipeline.connectors.storage import STORAGE_DOC, Location, first_line, location
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem


@dataclass(frozen=True, slots=True)
class FilesSourceOptions:
    files: str = option("A folder, or the URL of one in an object store.", example="s3://lake/clicks")
    format: str = option("json has an object a line; csv has a line of names.", "parquet", choices=FORMATS)
    schema: str | None = option(
        "Columns and their types, as in SQL; needed for json and csv, and for a folder that is empty.",
        None,
        example="id BIGINT, name STRING",
    )
    max_files: int = option("How many files a micro-batch of a stream has at most.", 1000)
    storage: Mapping[str, str] | None = option(STORAGE_DOC, None)


class FilesSource(Source):
    options: ClassVar[type] = FilesSourceOptions
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.STREAM, Shape.TABLE)
    doc: ClassVar[str] = (
        "Parquet, JSON or CSV files in a folder or an object store: as a stream of files that come, or all of them."
    )
    given: FilesSourceOptions

    @property
    def location(self) -> Location:
        return location(self.given.files, self.given.storage or {}, self.place)

    def check(self) -> Iterable[Problem]:
        if self.given.format != "parquet" and self.given.schema is None:
            yield Problem(("format",), f"{self.given.format} files do not say what their columns are: schema must")
        if self.given.max_files < 1:
            yield Problem(("max-files",), "max-files must be 1 or more")

    def check_there(self) -> Iterable[Problem]:
        from pathlib import Path

        if self.location.is_folder and not Path(self.location.url).is_dir():
            yield Problem(("files",), f"there is no folder {self.location.url}")

    def stream(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.files_reading import FORMAT, FileRows

        spark.dataSource.register(FileRows)
        reader = spark.readStream.format(FORMAT).options(**self._options())
        try:
            return (reader if self.given.schema is None else reader.schema(self.given.schema)).load()
        except OSError as error:
            raise OttlaError(f"{self.location.url} cannot be read: {first_line(error)}") from error

    def table(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.files_reading import FileRows
        from ottla.pipeline.connectors.late_reading import read_late

        try:
            return read_late(spark, FileRows, self._options(), self.given.schema)
        except OSError as error:
            raise OttlaError(f"{self.location.url} cannot be read: {first_line(error)}") from error

    def _options(self) -> dict[str, str]:
        from ottla.pipeline.connectors.files_reading import Reading

        return Reading(self.location, self.given.format, self.given.max_files).to_options()
