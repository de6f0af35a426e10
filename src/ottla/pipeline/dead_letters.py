"""Records that cannot be decoded and rows that a step rejects, as records of a topic.

Key, value and headers are those of the record where they are known, else the value is the row as JSON. More headers
tell the reason and the origin:
`__ottla.errors.reason`, `.stage`, `.pipeline`, `.topic`, `.partition`, `.offset`, `.timestamp`, `.trace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.connectors.port import DataFrame

if TYPE_CHECKING:
    from ottla.pipeline.spec import Spec

PREFIX: Final = "__ottla.errors."
ORIGIN: Final = ("topic", "partition", "offset", "timestamp")
REJECTED: Final = "_rejected"
HEADERS_TYPE: Final = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
REJECTED_TYPE: Final = (
    "STRUCT<reason: STRING, trace: STRING, row: STRING, key: BINARY, "
    f"headers: {HEADERS_TYPE}, topic: STRING, partition: INT, offset: BIGINT, timestamp: TIMESTAMP>"
)
RECORD_TYPE: Final = f"STRUCT<key: BINARY, value: BINARY, headers: {HEADERS_TYPE}, topic: STRING>"


def of_undecodable(spec: Spec, source: str, frame: DataFrame) -> DataFrame:
    """Of the rows of a source that have something in `_undecodable`."""
    from pyspark.sql.functions import col, concat_ws

    about = {
        "reason": concat_ws(" is ", col("_undecodable.part"), col("_undecodable.reason")),
        "stage": _text(f"sources.{source}"),
        **{name: col(f"_{name}") for name in ORIGIN},
    }
    wrong = frame.where(col("_undecodable").isNotNull())
    return _records(spec, wrong, col("_undecodable.key"), col("_undecodable.value"), about, _headers(frame))


def of_refused(spec: Spec, step: str, frame: DataFrame, reason: Any) -> DataFrame:
    """Of rows for which conditions do not hold."""
    from pyspark.sql.functions import col, struct, to_json

    about = {"reason": reason, "stage": _text(f"steps.{step}")}
    about |= {name: col(f"_{name}") for name in ORIGIN if f"_{name}" in frame.columns}
    row = to_json(struct(*(f"`{name}`" for name in frame.columns if not name.startswith("_"))))
    return _records(spec, frame, _key(frame), row.cast("binary"), about, _headers(frame))


def of_rejected(spec: Spec, step: str, frame: DataFrame) -> DataFrame:
    """Of the rows of a `map` that have something in `_rejected`."""
    from pyspark.sql.functions import col

    parts = ("reason", "trace", *ORIGIN)
    about = {name: col(f"{REJECTED}.{name}") for name in parts} | {"stage": _text(f"steps.{step}")}
    wrong = frame.where(col(REJECTED).isNotNull())
    of_row = {name: col(f"{REJECTED}.{name}") for name in ("key", "row", "headers")}
    return _records(spec, wrong, of_row["key"], of_row["row"].cast("binary"), about, of_row["headers"])


def _key(frame: DataFrame) -> Any:
    from pyspark.sql.functions import col

    return col("_key").cast("binary") if "_key" in frame.columns else None


def _headers(frame: DataFrame) -> Any:
    from pyspark.sql.functions import col

    return col("_headers") if "_headers" in frame.columns else None


def _text(text: str) -> Any:
    from pyspark.sql.functions import lit

    return lit(text)


def _records(spec: Spec, frame: DataFrame, key: Any, value: Any, about: dict[str, Any], own: Any) -> DataFrame:
    """`own`: headers of the record, where they are known."""
    from pyspark.sql.functions import array, coalesce, concat, filter, lit, struct

    assert spec.errors.dead_letters is not None
    about["pipeline"] = lit(spec.name)
    headers = array(
        *(
            struct(lit(PREFIX + name).alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in about.items()
        )
    )
    told = filter(headers, lambda header: header["value"].isNotNull()).cast(HEADERS_TYPE)
    if own is not None:
        told = concat(coalesce(own.cast(HEADERS_TYPE), array().cast(HEADERS_TYPE)), told)
    return frame.select(
        (lit(None).cast("binary") if key is None else key).alias("key"),
        value.alias("value"),
        told.alias("headers"),
        lit(spec.errors.dead_letters).alias("topic"),
    )
