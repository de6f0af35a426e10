"""`topic`: rows become records of a topic, exactly once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.model.near_miss import did_you_mean
from ottla.pipeline import cluster_questions
from ottla.pipeline.connectors.port import Batch, DataFrame, Sink, StructType
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem

RECORD: Final = ("key", "value", "headers", "topic")
_HEADERS: Final = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class Options:
    topic: str = option("The topic.")
    key: str | None = option("The column whose text is the key; by default records have none.", None)
    encode: str = option(
        "json: all columns but those that begin with an underscore, as a JSON object; string: the column `value` as "
        "text; binary: the column `value` as it is.",
        "json",
        choices=("json", "string", "binary"),
    )
    delete: str | None = option("A condition in SQL: rows for which it holds are written as tombstones.", None)
    headers: str | None = option("A column with headers.", None)
    partitions: int | None = option("If the topic is not there, it is made with so many partitions.", None)
    compacted: bool = option("If the topic is made, whether it is compacted.", False)
    compression: str = option(
        "Of record batches.", "zstd", choices=("none", "gzip", "snappy", "lz4", "zstd")
    )  # fmt: skip
    options: Mapping[str, str] | None = option('Any other option of Spark\'s `format("ottla")` for writing.', None)


class TopicSink(Sink):
    options: ClassVar[type] = Options
    doc: ClassVar[str] = (
        "Records of a topic, exactly once: a micro-batch is a transaction that carries its number. All topics that are "
        "written from one step, and its dead letters, share the transaction."
    )
    given: Options

    def check(self) -> Iterable[Problem]:
        if self.given.partitions is not None and self.given.partitions < 1:
            yield Problem(("partitions",), f"partitions must be 1 or more, not {self.given.partitions}")
        if self.given.compacted and self.given.key is None:
            yield Problem(("compacted",), "a compacted topic needs a key: `key: COLUMN`")
        if self.given.delete is not None:
            from ottla.pipeline import sql

            for one in sql.understood(f"SELECT * FROM rows WHERE ({self.given.delete})").problems:
                yield Problem(("delete",), one.message, is_doubt=True)
            if self.given.key is None:
                yield Problem(("delete",), "a tombstone needs a key: `key: COLUMN`")

    def check_there(self) -> Iterable[Problem]:
        if self.given.partitions is None:
            why = cluster_questions.missing_topic(self.place.bootstrap, self.given.topic)
            if why is not None:
                yield Problem(("topic",), f"{why}; or `partitions: 3` here, and it is made when the pipeline runs")

    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
        given = self.given
        wanted = {"key": given.key, "headers": given.headers} | ({} if given.encode == "json" else {"encode": "value"})
        for name, column in wanted.items():
            if column is not None and column not in kinds:
                yield Problem((name,), f"there is no column {column}{did_you_mean(column, kinds)}")
        if given.headers in kinds and kinds[given.headers] != _HEADERS:
            yield Problem(("headers",), f"headers must be {_HEADERS}, not {kinds[given.headers]}")
        if given.encode == "json" and not any(not name.startswith("_") for name in kinds):
            yield Problem(("encode",), "there is no column to write: those that begin with an underscore are left out")

    def prepare(self) -> None:
        """Makes the topic if the spec says that it may be made."""
        if self.given.partitions is not None and not cluster_questions.partitions(
            self.place.bootstrap, self.given.topic
        ):
            policy = {"cleanup_policy": "compact"} if self.given.compacted else {}
            cluster_questions.create_topic(self.place.bootstrap, self.given.topic, self.given.partitions, **policy)

    def records(self, rows: DataFrame) -> DataFrame:
        """Columns as in RECORD."""
        from pyspark.sql.functions import col, expr, lit, struct, to_json, when

        given = self.given
        kinds = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        if given.encode == "json":
            columns = [f"`{name}`" for name in kinds if not name.startswith("_")]
            value = to_json(struct(*columns), {"ignoreNullFields": "false"}).cast("binary")
        else:
            value = col("value").cast("string").cast("binary") if given.encode == "string" else col("value")
        if given.delete is not None:
            value = when(expr(f"NOT coalesce(({given.delete}), false)"), value)
        key = lit(None).cast("binary") if given.key is None else _text(given.key, kinds[given.key]).cast("binary")
        headers = lit(None).cast(_HEADERS) if given.headers is None else col(given.headers)
        return rows.select(
            key.alias("key"), value.alias("value"), headers.alias("headers"), lit(given.topic).alias("topic")
        )

    def write(self, rows: DataFrame, batch: Batch) -> None:
        write_records(self.place.bootstrap, self.records(rows), batch, self.client_options())

    def client_options(self) -> dict[str, str]:
        return {"kafka.compression.type": self.given.compression, **(self.given.options or {})}

    def as_test_rows(self, rows: DataFrame) -> list[dict[str, Any]]:
        """Columns as they are, and a tombstone as a row with its key alone."""
        import json

        found = []
        for record in self.records(rows).collect():
            value = None if record.value is None else bytes(record.value)
            if value is None:
                row: dict[str, Any] = {"value": None}
            elif self.given.encode == "json":
                row = json.loads(value)
            else:
                row = {"value": value.decode("utf-8", "backslashreplace")}
            key = None if record.key is None else bytes(record.key).decode("utf-8", "backslashreplace")
            found.append(row if key is None else {"_key": key, **row})
        return found


def write_records(bootstrap: str, records: DataFrame, batch: Batch, options: Mapping[str, str]) -> None:
    """Records of any topics in one transaction, once for a query and a batch."""
    from ottla.spark.foreach_batch import write_once
    from ottla.spark.producing import Marker
    from ottla.spark.sink_options import Delivery, sink_options

    # the name without its generation, so that a pipeline that was begun anew fences whoever still runs the old one
    writer, _, _ = batch.query.rpartition("@")
    given = {"kafka.bootstrap.servers": bootstrap, "kafka.transactional.id": f"ottla-pipeline-{writer or batch.query}"}
    found = sink_options({**given, **options}, records.schema, Delivery.EXACTLY_ONCE)
    write_once(found, records, Marker(batch.query, batch.id))


def _text(name: str, kind: str) -> Any:
    from pyspark.sql.functions import col, to_json

    column = col(f"`{name}`")
    if kind == "binary":
        return column
    return to_json(column) if kind.startswith(("struct", "array", "map")) else column.cast("string")
