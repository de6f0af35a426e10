"""An Apache Iceberg table as a source: as it is when a micro-batch looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.iceberg_catalog import CATALOG_DOC, open_catalog, open_table
from ottla.pipeline.connectors.port import DataFrame, Shape, Source, SparkSession
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem


@dataclass(frozen=True, slots=True)
class IcebergSourceOptions:
    iceberg: str = option("The table with its namespace.", example="shop.orders")
    catalog: Mapping[str, str] | None = option(CATALOG_DOC, None)


class IcebergSource(Source):
    options: ClassVar[type] = IcebergSourceOptions
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.TABLE,)
    doc: ClassVar[str] = "An Apache Iceberg table, as it is when a micro-batch looks at it. One task reads it."
    given: IcebergSourceOptions

    def _open(self) -> Any:
        found = open_table(open_catalog(self.given.catalog, self.place), self.given.iceberg)
        if found is None:
            raise OttlaError(f"there is no Iceberg table {self.given.iceberg}")
        return found

    def check_there(self) -> Iterable[Problem]:
        try:
            self._open()
        except OttlaError as error:
            yield Problem(("iceberg",), str(error))

    def table(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.iceberg_reading import IcebergRows, options_of
        from ottla.pipeline.connectors.late_reading import read_late

        return read_late(spark, IcebergRows, options_of(self.given.catalog, self.given.iceberg, self.place))
