"""`topic`: records of topics as they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.model.errors import OttlaError
from ottla.pipeline import cluster_questions
from ottla.pipeline.connectors.port import DataFrame, Shape, Source, SparkSession
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem

OF_RECORD: Final = {
    "_topic": "STRING",
    "_partition": "INT",
    "_offset": "BIGINT",
    "_timestamp": "TIMESTAMP",
}
HEADERS: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
UNDECODABLE: Final = "_undecodable"
_FORMATS: Final = ("binary", "string", "json")


@dataclass(frozen=True, slots=True)
class Options:
    topic: str = option("The topic, or several separated by commas.")
    decode: str = option("What values are.", "string", choices=_FORMATS)
    schema: str | None = option("Fields of JSON values that become columns, like `id BIGINT, name STRING`.", None)
    key: str = option("What keys are; the column is `_key`.", "string", choices=("binary", "string"))
    headers: bool = option("Whether there is a column `_headers`.", False)
    start: str = option(
        "Where to begin the first time: earliest, latest, or a time like 2026-11-16T12:00:00Z.", "earliest"
    )
    rows_per_batch: int | None = option("At most so many records in a micro-batch.", 1_000_000)
    isolation: str = option(
        "Whether records of open and aborted transactions are read.",
        "read_committed",
        choices=("read_committed", "read_uncommitted"),
    )
    data_loss: str = option(
        "What happens if records were deleted before they were read.", "fail", choices=("fail", "go-on")
    )
    options: Mapping[str, str] | None = option('Any other option of Spark\'s `format("ottla")`.', None)


class TopicSource(Source):
    options: ClassVar[type] = Options
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.STREAM,)
    doc: ClassVar[str] = (
        "Records of topics. The fields of JSON values are columns, other values the column `value`; the record's own "
        "are `_key`, `_topic`, `_partition`, `_offset`, `_timestamp`. Progress is shown as the consumer group "
        "`PIPELINE.SOURCE`."
    )
    given: Options
    keeps_undecodable = False
    """Set by whoever has a place for them; they have their headers then."""

    def check(self) -> Iterable[Problem]:
        found = list(check_decoding(self.given.decode, self.given.schema))
        if not is_start(self.given.start):
            said = f"start is earliest, latest or a time like 2026-11-16T12:00:00Z, not {self.given.start!r}"
            found.append(Problem(("start",), said))
        if self.given.rows_per_batch is not None and self.given.rows_per_batch < 1:
            said = f"rows-per-batch must be 1 or more, not {self.given.rows_per_batch}"
            found.append(Problem(("rows-per-batch",), said))
        return found or check_spark_options(self.spark_options(), self.given.options)

    def check_there(self) -> Iterable[Problem]:
        for topic in self.given.topic.split(","):
            if (why := cluster_questions.missing_topic(self.place.bootstrap, topic.strip())) is not None:
                yield Problem(("topic",), why)

    def columns(self) -> Mapping[str, str] | None:
        value = value_columns(self.given.decode, self.given.schema)
        if value is None:
            return None
        own = {"_key": self.given.key.upper(), **OF_RECORD} | ({"_headers": HEADERS} if self.given.headers else {})
        return value | own

    @property
    def decodes(self) -> bool:
        """Else nothing can be undecodable."""
        return bool(decoding_options(self.given.decode, self.given.schema, self.given.key))

    def spark_options(self) -> dict[str, str]:
        given = self.given
        found = {
            "kafka.bootstrap.servers": self.place.bootstrap,
            "subscribe": given.topic,
            "isolation": given.isolation,
            "includeHeaders": str(given.headers or self.keeps_undecodable).lower(),
            "failOnDataLoss": str(given.data_loss == "fail").lower(),
            "kafka.group.id": self.place.name,
            **decoding_options(given.decode, given.schema, given.key),
        }
        if given.rows_per_batch is not None:
            found["maxOffsetsPerTrigger"] = str(given.rows_per_batch)
        if given.start in ("earliest", "latest"):
            found["startingOffsets"] = given.start
        else:
            found["startingTimestamp"] = str(_milliseconds(given.start))
            found["startingOffsetsByTimestampStrategy"] = "latest"
        if self.keeps_undecodable:
            found["undecodable"] = "keep"
        return found | dict(given.options or {})

    def stream(self, spark: SparkSession) -> DataFrame:
        return columned(spark.readStream.format("ottla").options(**self.spark_options()).load(), self.given.decode)

    def test_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Rows are columns, or records: `value` (a text, or for JSON an object), `key`, `timestamp`."""
        return rows_of_records(self, rows)


def rows_of_records(source: Source, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    kinds = source.columns()
    assert kinds is not None
    found: list[Mapping[str, Any]] = []
    for number, row in enumerate(rows):
        own = {"_topic": source.place.entry, "_partition": 0, "_offset": number, "_timestamp": "2026-01-01T00:00:00Z"}
        fields = {_test_column(name, kinds): one for name, one in row.items()}
        if unknown := next((name for name in fields if name not in kinds), None):
            from ottla.model.near_miss import did_you_mean

            raise OttlaError(f"{source.place.entry} has no column {unknown}{did_you_mean(unknown, kinds)}")
        found.append(own | fields)
    return found


def _test_column(name: str, kinds: Mapping[str, str]) -> str:
    """`key` and `timestamp` of a record are columns with an underscore."""
    return f"_{name}" if name not in kinds and f"_{name}" in kinds else name


def check_decoding(decode: str, schema: str | None) -> Iterable[Problem]:
    if decode == "json" and not (schema or "").strip():
        yield Problem(("decode",), "decode: json needs a schema, like `schema: id BIGINT, name STRING`")
    if decode != "json" and schema is not None:
        yield Problem(("schema",), f"schema is for decode: json, and decode is {decode}", at_name=True)
    if decode == "json" and schema and value_columns(decode, schema) is None:
        yield Problem(("schema",), f"schema must be columns like `id BIGINT, name STRING`, not {schema!r}")


def check_spark_options(options: dict[str, str], own: Mapping[str, str] | None) -> Iterable[Problem]:
    from ottla.spark.source_options import source_options

    try:
        source_options(options, batch=False)
    except OttlaError as error:
        yield Problem(("options",) if own else (), str(error), at_name=True)


def decoding_options(decode: str, schema: str | None, key: str) -> dict[str, str]:
    found = {} if decode == "binary" else {"decode": decode}
    if schema is not None:
        found["decodeSchema"] = schema
    return found | ({} if key == "binary" else {"decodeKey": key})


def columned(frame: DataFrame, decode: str) -> DataFrame:
    """Fields of JSON become columns; those of the record itself have a name that begins with an underscore."""
    from pyspark.sql.functions import col

    own = [col(name).alias(f"_{name}") for name in frame.columns if name not in ("value", "timestampType")]
    return frame.select("value.*" if decode == "json" else "value", *own)


def value_columns(decode: str, schema: str | None) -> dict[str, str] | None:
    """None if the schema cannot be read."""
    if decode != "json":
        return {"value": decode.upper()}
    from ottla.pipeline.schema_text import columns_of

    return columns_of(schema or "")


def is_start(text: str) -> bool:
    return text in ("earliest", "latest") or _milliseconds(text) is not None


def _milliseconds(text: str) -> int | None:
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
