"""Spark's columns as Arrow's, and how a table's columns follow those of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(schema: Any) -> pa.Schema:
    """Of a DataFrame's schema: times in UTC, everything nullable."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    found = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(field.name, field.type) for field in found])


def without(schema: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([field for field in schema if field.name not in names])


def new_columns(table: pa.Schema, rows: pa.Schema, what: str, *, may_add: bool) -> list[pa.Field]:
    """Those that the table lacks. OttlaError for rows that do not fit, with the columns that are wrong."""
    new = [field for field in rows if table.get_field_index(field.name) < 0]
    if new and not may_add:
        names = ", ".join(f"{field.name} ({field.type})" for field in new)
        raise OttlaError(f"{what} has no column {names}; new-columns: add lets it grow, leave-out leaves columns out")
    wrong = []
    for field in rows:
        at = table.get_field_index(field.name)
        if at >= 0 and not fits(field.type, table.field(at).type):
            wrong.append(f"{field.name} is {field.type} in rows and {table.field(at).type} in the table")
    if wrong:
        raise OttlaError(
            f"rows do not fit into {what}: {'; '.join(wrong)}. CAST in a step, or write into a new table; nothing of "
            "this batch was written"
        )
    for field in table:
        if not field.nullable and rows.get_field_index(field.name) < 0:
            raise OttlaError(f"{what} needs a column {field.name}, which rows do not have")
    return new


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values go over without loss, or fail aloud."""
    import pyarrow as pa

    given, wanted = _plain(given), _plain(wanted)
    if given == wanted or pa.types.is_null(given):
        return True
    if pa.types.is_integer(given) and pa.types.is_integer(wanted):
        return bool(given.bit_width <= wanted.bit_width)
    if pa.types.is_floating(wanted):
        return bool(
            (pa.types.is_floating(given) and given.bit_width <= wanted.bit_width)
            or (pa.types.is_integer(given) and given.bit_width < wanted.bit_width)
        )
    if pa.types.is_decimal(given) and pa.types.is_decimal(wanted):
        return bool(given.scale <= wanted.scale and given.precision - given.scale <= wanted.precision - wanted.scale)
    if pa.types.is_list(given) and pa.types.is_list(wanted):
        return fits(given.value_type, wanted.value_type)
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        mine, theirs = ({field.name: field.type for field in kind} for kind in (given, wanted))
        return mine.keys() == theirs.keys() and all(fits(kind, theirs[name]) for name, kind in mine.items())
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return fits(given.key_type, wanted.key_type) and fits(given.item_type, wanted.item_type)
    return False


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_large_list(kind):
        return pa.list_(kind.value_type)
    return kind
