"""JSON objects into columns of a schema, many at once by Arrow's reader. Fields that the schema lacks are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.types as kinds

from ottla.spark.formats.registry import Convert


def decoding(to: pa.StructType) -> Convert:
    fields = [to.field(number) for number in range(to.num_fields)]
    options = pyarrow.json.ParseOptions(
        explicit_schema=pa.schema([(field.name, _read_as(field.type)) for field in fields]),
        newlines_in_values=True,
        unexpected_field_behavior="ignore",
    )

    def decode(values: pa.Array) -> pa.Array:
        there = values.drop_null()
        if not len(there):
            return pa.nulls(len(values), to)
        texts = there.cast(pa.string())
        _check_that_each_is_an_object(texts)
        text = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
        # one block: an object may be as long as all of it
        reading = pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1)
        table = pyarrow.json.read_json(pa.BufferReader(text), reading, options).combine_chunks()
        if table.num_rows != len(there):
            raise ValueError("a value holds more than one object")
        columns = [table.column(field.name).combine_chunks().cast(field.type) for field in fields]
        objects = pa.StructArray.from_arrays(columns, fields=fields)
        return objects if len(there) == len(values) else objects.take(_places(values))

    return decode


def _check_that_each_is_an_object(texts: pa.Array) -> None:
    """With this, and as many objects as values, each value is one: none can end in the middle of another."""
    trimmed = pc.ascii_trim_whitespace(texts)
    if not pc.all(pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))).as_py():
        raise ValueError("it does not begin with { and end with }")


def _read_as(kind: Any) -> Any:
    """Dates are read as text first: Arrow's reader takes them for numbers of days."""
    if kinds.is_date(kind):
        return pa.string()
    if kinds.is_list(kind):
        return pa.list_(_read_as(kind.value_type))
    if kinds.is_struct(kind):
        inner = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([(field.name, _read_as(field.type)) for field in inner])
    return kind


def _places(values: pa.Array) -> pa.Array:
    """For each value the number of its object, null where there is none."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(np.cumsum(valid) - 1, mask=~valid)
