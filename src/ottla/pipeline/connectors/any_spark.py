"""`spark`: any source or sink that Spark itself knows, by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ottla.pipeline.connectors.port import Batch, DataFrame, Shape, Sink, Source, SparkSession
from ottla.pipeline.options import option


@dataclass(frozen=True, slots=True)
class SourceOptions:
    spark: str = option('The name in `spark.readStream.format("...")`.', example="rate")
    schema: str | None = option("Columns, for sources that must be told.", None)
    options: Mapping[str, str] | None = option("Its options.", None)


class SparkSource(Source):
    options: ClassVar[type] = SourceOptions
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.STREAM, Shape.TABLE)
    doc: ClassVar[str] = "Any source of Spark's by its name, as a stream or as a table."
    given: SourceOptions

    def stream(self, spark: SparkSession) -> DataFrame:
        return self._loaded(spark.readStream)

    def table(self, spark: SparkSession) -> DataFrame:
        return self._loaded(spark.read)

    def _loaded(self, reader: DataFrame) -> DataFrame:
        reader = reader.format(self.given.spark).options(**dict(self.given.options or {}))
        return (reader if self.given.schema is None else reader.schema(self.given.schema)).load()


@dataclass(frozen=True, slots=True)
class SinkOptions:
    spark: str = option('The name in `frame.write.format("...")`.', example="parquet")
    save_mode: str = option("As in `frame.write.mode(...)`.", "append", choices=("append", "overwrite"))
    options: Mapping[str, str] | None = option("Its options.", None)


class SparkSink(Sink):
    options: ClassVar[type] = SinkOptions
    doc: ClassVar[str] = (
        "Any sink of Spark's for tables, by its name; a micro-batch that is repeated after a failure is written again."
    )
    given: SinkOptions

    def write(self, rows: DataFrame, batch: Batch) -> None:
        writer = rows.write.format(self.given.spark).mode(self.given.save_mode)
        writer.options(**dict(self.given.options or {})).save()
