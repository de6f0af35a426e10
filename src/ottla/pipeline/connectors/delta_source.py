"""A Delta Lake table as a source: as it is now, or as a stream of what is appended to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.delta_sink import open_table
from ottla.pipeline.connectors.port import DataFrame, Shape, Source, SparkSession
from ottla.pipeline.connectors.storage import STORAGE_DOC, Location, location
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem


@dataclass(frozen=True, slots=True)
class DeltaSourceOptions:
    delta: str = option("The table: a folder, or a URL.", example="s3://lake/orders")
    start: str = option(
        "Where a stream begins: with the rows that are there, or with what is appended from now on.",
        "earliest",
        choices=("earliest", "latest"),
    )
    changes: str = option(
        "What a stream does when rows of the table are changed or deleted: it fails, or it leaves such versions out.",
        "fail",
        choices=("fail", "ignore"),
    )
    storage: Mapping[str, str] | None = option(STORAGE_DOC, None)


class DeltaSource(Source):
    options: ClassVar[type] = DeltaSourceOptions
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.STREAM, Shape.TABLE)
    doc: ClassVar[str] = "A Delta Lake table: as a stream of what is appended to it, or as it is now."
    given: DeltaSourceOptions

    @property
    def location(self) -> Location:
        return location(self.given.delta, self.given.storage or {}, self.place)

    def check_there(self) -> Iterable[Problem]:
        try:
            if open_table(self.location) is None:
                yield Problem(("delta",), f"there is no Delta table at {self.location.url}")
        except OttlaError as error:
            yield Problem(("delta",), str(error))

    def stream(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.delta_reading import FORMAT, DeltaRows

        spark.dataSource.register(DeltaRows)
        return spark.readStream.format(FORMAT).options(**self._options()).load()

    def table(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.delta_reading import DeltaRows
        from ottla.pipeline.connectors.late_reading import read_late

        return read_late(spark, DeltaRows, self._options())

    def _options(self) -> dict[str, str]:
        from ottla.pipeline.connectors.delta_reading import Reading

        return Reading(self.location, self.given.start == "latest", self.given.changes == "ignore").to_options()
