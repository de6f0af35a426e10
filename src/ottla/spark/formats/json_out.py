"""Columns into JSON, column by column: texts of the parts are joined, and no row is touched by itself.

As Spark's to_json: fields without value are left out, elements of arrays without value are null.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROLS: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f]"


def encode(values: pa.Array) -> pa.Array:
    return _texts(values).cast(pa.binary())


def _texts(values: Any) -> Any:
    kind = values.type
    if kinds.is_struct(kind):
        return _objects(values)
    if kinds.is_map(kind):
        return _maps(values)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _lists(values)
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return _quoted(values.cast(pa.string()))
    if kinds.is_timestamp(kind):
        return _wrapped('"', _times(values), '"')
    if kinds.is_date(kind) or kinds.is_time(kind):
        return _wrapped('"', values.cast(pa.string()), '"')
    if kinds.is_floating(kind):
        return _numbers(values)
    return values.cast(pa.string())


def _numbers(values: Any) -> Any:
    """What is no number has no other way to be written than as text, which is what Spark does."""
    plain = values.cast(pa.string())
    names = pc.if_else(pc.is_nan(values), "NaN", pc.if_else(pc.less(values, 0), "-Infinity", "Infinity"))
    return pc.if_else(pc.is_finite(values), plain, _wrapped('"', names, '"'))


def _times(values: Any) -> Any:
    zone = values.type.tz
    texts = pc.strftime(values, "%Y-%m-%dT%H:%M:%S")
    return _wrapped("", texts, "" if zone is None else "Z")


def _quoted(values: Any) -> Any:
    for raw, written in _ESCAPES:
        values = pc.replace_substring(values, raw, written)
    if pc.any(pc.match_substring_regex(values, _CONTROLS)).as_py():
        for code in range(32):
            values = pc.replace_substring(values, chr(code), f"\\u{code:04x}")
    return _wrapped('"', values, '"')


def _wrapped(before: str, values: Any, after: str) -> Any:
    return pc.binary_join_element_wise(before, values, after, "")


def _objects(values: Any) -> Any:
    names = [values.type.field(number).name for number in range(values.type.num_fields)]
    parts = [
        pc.fill_null(
            pc.binary_join_element_wise("," + _quoted(pa.array([name]))[0].as_py() + ":", _texts(column), ""), ""
        )
        for name, column in zip(names, values.flatten(), strict=True)
    ]
    texts = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*parts, ""), 1)
    return _absent_where(values, _wrapped("{", texts, "}"))


def _lists(values: Any) -> Any:
    return _joined(values, pc.fill_null(_texts(values.flatten()), "null"), "[", "]")


def _maps(values: Any) -> Any:
    entries = pa.ListArray.from_arrays(
        values.offsets, pa.StructArray.from_arrays([values.keys, values.items], ["k", "v"])
    )
    flat = entries.flatten()
    keys = flat.field(0)
    keys = keys if kinds.is_string(keys.type) else keys.cast(pa.string())
    pairs = pc.binary_join_element_wise(_quoted(keys), pc.fill_null(_texts(flat.field(1)), "null"), ":")
    return _joined(values, pairs, "{", "}")


def _joined(values: Any, texts: Any, before: str, after: str) -> Any:
    """`texts` are those of all elements, of a list without value none."""
    sizes = pc.fill_null(_sizes(values), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
    inside = pc.binary_join(pa.ListArray.from_arrays(ends, texts), ",")
    return _absent_where(values, _wrapped(before, inside, after))


def _sizes(values: Any) -> Any:
    if not kinds.is_map(values.type):
        return pc.list_value_length(values)
    offsets = values.offsets.to_numpy(zero_copy_only=False)
    return pa.array(np.diff(offsets), mask=~values.is_valid().to_numpy(zero_copy_only=False))


def _absent_where(values: Any, texts: Any) -> Any:
    """Null where the value is."""
    return texts if not values.null_count else pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string()))
