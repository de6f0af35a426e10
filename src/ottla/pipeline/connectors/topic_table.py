"""`table`: a compacted topic as a table, with the newest value of each key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ottla.pipeline import cluster_questions
from ottla.pipeline.connectors.port import DataFrame, Shape, Source, SparkSession
from ottla.pipeline.connectors.topic_source import (
    OF_RECORD,
    check_decoding,
    columned,
    decoding_options,
    rows_of_records,
    value_columns,
)
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem


@dataclass(frozen=True, slots=True)
class Options:
    table: str = option("The topic.")
    decode: str = option("What values are.", "json", choices=("binary", "string", "json"))
    schema: str | None = option("Fields of JSON values that become columns, like `id BIGINT, name STRING`.", None)
    key: str = option("What keys are; the column is `_key`.", "string", choices=("binary", "string"))
    undecodable: str = option(
        "What happens with a value that cannot be decoded.", "fail", choices=("fail", "skip")
    )  # fmt: skip


class TopicTable(Source):
    options: ClassVar[type] = Options
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.TABLE,)
    doc: ClassVar[str] = (
        "A compacted topic as a table: a row for each key, with its newest value; keys whose newest value is null (a "
        "tombstone) are not there. It is read anew for every micro-batch, so it should be small beside what streams by."
    )
    given: Options

    def check(self) -> Iterable[Problem]:
        yield from check_decoding(self.given.decode, self.given.schema)

    def check_there(self) -> Iterable[Problem]:
        bootstrap, topic = self.place.bootstrap, self.given.table
        if (why := cluster_questions.missing_topic(bootstrap, topic)) is not None:
            yield Problem(("table",), why)
            return
        policy = cluster_questions.topic_config(bootstrap, topic, "cleanup.policy")
        if "compact" not in policy:
            yield Problem(
                ("table",),
                f"topic {topic} is not compacted (cleanup.policy is {policy}), so keys would vanish from the table; "
                f"`ottla config set topic {topic} cleanup.policy=compact` changes that",
            )

    def columns(self) -> Mapping[str, str] | None:
        value = value_columns(self.given.decode, self.given.schema)
        return None if value is None else value | {"_key": self.given.key.upper(), **OF_RECORD}

    def table(self, spark: SparkSession) -> DataFrame:
        from pyspark.sql.functions import col, max_by, struct

        from ottla.pipeline.connectors.late_reading import read_late
        from ottla.spark.source import OttlaDataSource

        given = self.given
        options = {
            "kafka.bootstrap.servers": self.place.bootstrap,
            "subscribe": given.table,
            "isolation": "read_committed",
            "undecodable": "fail" if given.undecodable == "fail" else "null",
            **decoding_options(given.decode, given.schema, given.key),
        }
        records = columned(read_late(spark, OttlaDataSource, options).select(_RECORD), "binary")
        # a topic that was given more partitions may have a key in two of them: then the later time counts
        newest = records.groupBy("_key").agg(
            max_by(struct(*records.columns), struct("_timestamp", "_offset")).alias("newest")
        )
        rows = newest.select("newest.*").where(col("value").isNotNull())
        return rows.select("value.*", *(name for name in rows.columns if name != "value")) if _is_json(given) else rows

    def test_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return rows_of_records(self, rows)


_RECORD = ["key", "value", "topic", "partition", "offset", "timestamp"]


def _is_json(given: Options) -> bool:
    return given.decode == "json"
