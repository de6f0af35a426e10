"""The formats of a query's columns, key and value: what options say, checked, and carried to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.model.errors import OttlaError
from ottla.spark.formats.registry import Convert, format_named

if TYPE_CHECKING:
    import pyarrow as pa

DECODE_OPTIONS: Final = ("decode", "decodeSchema", "decodeKey", "decodeKeySchema", "undecodable")
ENCODE_OPTIONS: Final = ("encode", "encodeKey")
_DECODED: Final = {"value": ("decode", "decodeSchema"), "key": ("decodeKey", "decodeKeySchema")}
_ENCODED: Final = {"value": "encode", "key": "encodeKey"}


class Column(NamedTuple):
    name: str
    format: str
    kind: str = ""
    """Spark's type of the column, as JSON."""
    null_if_wrong: bool = False
    kept_if_wrong: bool = False


UNDECODABLE: Final = "undecodable"
KEPT: Final = "STRUCT<part: STRING, reason: STRING, key: BINARY, value: BINARY>"
"""Of the column `undecodable`: which of key and value is wrong, why, and both as they are in the log."""


def keeps_undecodable(given: Mapping[str, str]) -> bool:
    return given.get(UNDECODABLE, "").strip().lower() == "keep"


def column_type(name: str, given: Mapping[str, str]) -> str:
    """Of a column that is read, in Spark's words."""
    option, schema_option = _DECODED[name]
    schema = given.get(schema_option)
    if option not in given:
        if schema is not None:
            raise OttlaError(f"{schema_option} is for {option}=json, and there is no {option}")
        return "BINARY"
    found = format_named(option, given[option])
    if found.wants_schema and not (schema or "").strip():
        raise OttlaError(f"{option}={given[option]} needs the option {schema_option}, like 'id BIGINT, name STRING'")
    if not found.wants_schema and schema is not None:
        raise OttlaError(f"{schema_option} is for {option}=json, not for {option}={given[option]}")
    return found.column(schema)


def decoded_columns(given: Mapping[str, str], schema: Any) -> tuple[Column, ...]:
    """`schema` is Spark's, made of what column_type() has said."""
    wrong = given.get("undecodable", "fail").strip().lower()
    if wrong not in ("fail", "null", "keep"):
        raise OttlaError(f"undecodable is fail, null or keep, not {wrong!r}")
    found = []
    for name, (option, schema_option) in _DECODED.items():
        if option in given:
            kind = schema[name].dataType
            if (why := format_named(option, given[option]).not_decoded(kind.simpleString())) is not None:
                raise OttlaError(f"{schema_option} is {kind.simpleString()}: {why}")
            found.append(Column(name, given[option].strip().lower(), kind.json(), wrong != "fail", wrong == "keep"))
    if wrong == "keep" and not found:
        raise OttlaError("undecodable=keep is for decode and decodeKey, and there is neither")
    return tuple(found)


def encoded_columns(given: Mapping[str, str], kinds: Mapping[str, str]) -> tuple[Column, ...]:
    """`kinds` are Spark's types of the columns that are written."""
    found = []
    for name, option in _ENCODED.items():
        if option not in given:
            continue
        if name not in kinds:
            raise OttlaError(f"{option} is for a column {name}, and there is none")
        if (why := format_named(option, given[option]).not_encoded(kinds[name])) is not None:
            raise OttlaError(f"column {name} is {kinds[name]} and cannot be written by {option}={given[option]}: {why}")
        found.append(Column(name, given[option].strip().lower()))
    return tuple(found)


def decoded(columns: tuple[Column, ...], batch: pa.RecordBatch) -> pa.RecordBatch:
    """OttlaError with topic, partition and offset of the first record that is not of its format, unless it may be."""
    as_read = batch
    wrong: dict[int, tuple[str, str]] = {}
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        convert = _decoding(column.format, column.kind)
        try:
            values = convert(batch.column(place))
        except ValueError:
            values = _one_after_the_other(batch, column, convert, 0, batch.num_rows, wrong)
        batch = batch.set_column(place, column.name, values)
    if any(column.kept_if_wrong for column in columns):
        batch = batch.append_column(UNDECODABLE, _kept(as_read, wrong))
    return batch


def _kept(as_read: pa.RecordBatch, wrong: Mapping[int, tuple[str, str]]) -> pa.Array:
    import pyarrow as pa

    kind = pa.struct([("part", pa.string()), ("reason", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
    if not wrong:
        return pa.nulls(as_read.num_rows, kind)
    key, value = as_read.column("key"), as_read.column("value")
    rows: list[dict[str, Any] | None] = [None] * as_read.num_rows
    for row, (part, reason) in wrong.items():
        rows[row] = {"part": part, "reason": reason, "key": key[row].as_py(), "value": value[row].as_py()}
    return pa.array(rows, kind)


def encoded(columns: tuple[Column, ...], batch: pa.RecordBatch) -> pa.RecordBatch:
    for column in columns:
        place = batch.schema.get_field_index(column.name)
        values = batch.column(place)
        batch = batch.set_column(
            place, column.name, format_named("encode", column.format).encoding(values.type)(values)
        )
    return batch


def _one_after_the_other(
    batch: pa.RecordBatch, column: Column, convert: Convert, first: int, end: int, wrong: dict[int, tuple[str, str]]
) -> pa.Array:
    """By halves, so that what is right is done at once and what is wrong is found soon."""
    import pyarrow as pa

    rows = batch.column(column.name).slice(first, end - first)
    try:
        return convert(rows)
    except ValueError as error:
        if end - first > 1:
            middle = (first + end) // 2
            halves = ((first, middle), (middle, end))
            return pa.concat_arrays([_one_after_the_other(batch, column, convert, *half, wrong) for half in halves])
        if column.null_if_wrong:
            wrong.setdefault(first, (column.name, f"not {column.format}: {str(error).splitlines()[0]}"))
            return pa.nulls(1, _arrow_type(column.kind))
        raise OttlaError(_complaint(batch, column, first, error)) from error


def _complaint(batch: pa.RecordBatch, column: Column, row: int, error: ValueError) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    value = batch.column(column.name)[row].as_py()
    shown = value[:60].decode("utf-8", "backslashreplace") + ("..." if len(value) > 60 else "")
    return (
        f"{topic}-{partition}: the {column.name} of the record at offset {offset} cannot be decoded as "
        f"{column.format}: {str(error).splitlines()[0]}. It is {shown!r}. The option undecodable=null makes it null"
    )


@lru_cache(64)
def _decoding(name: str, kind: str) -> Convert:
    return format_named("decode", name).decoding(_arrow_type(kind))


@lru_cache(64)
def _arrow_type(kind: str) -> Any:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import _parse_datatype_json_string

    return to_arrow_type(_parse_datatype_json_string(kind), timezone="UTC")
