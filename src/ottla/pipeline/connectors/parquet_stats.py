"""Least and greatest values of a Parquet file's columns, as Delta's log has them, from the file's own footer."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, Final

Stats = dict[str, Any]
NO_STATS: Final[Stats] = {}
_TEXT: Final = 32
"""Longer texts are cut; a cut greatest value would be too small, so there is none."""
_COLUMNS: Final = 32


def stats_of(footer: Any) -> Stats:
    """`footer` is pyarrow's FileMetaData. Nested columns have none."""
    least: Stats = {}
    greatest: Stats = {}
    nulls: Stats = {}
    names = [footer.schema.column(n).path for n in range(footer.num_columns)]
    for n, name in enumerate(names[:_COLUMNS]):
        if "." in name or footer.schema.column(n).max_repetition_level:
            continue
        found = [footer.row_group(group).column(n).statistics for group in range(footer.num_row_groups)]
        if any(one is None or not one.has_null_count for one in found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        known = [one for one in found if one.has_min_max]
        if len(known) < sum(1 for one in found if one.num_values):
            continue
        if (low := _lower(min((one.min for one in known), default=None))) is not None:
            least[name] = low
        if (high := _upper(max((one.max for one in known), default=None))) is not None:
            greatest[name] = high
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _lower(value: Any) -> Any:
    match value:
        case bool():
            return None
        case int():
            return value
        case str():
            return value[:_TEXT]
        case datetime():
            return _time(value)
        case date():
            return value.isoformat()
        case _:  # floats may be NaN, decimals are not written the same by all, bytes are not compared
            return None


def _upper(value: Any) -> Any:
    match value:
        case str():
            return value if len(value) <= _TEXT else None
        case datetime():
            return _time(value + timedelta(milliseconds=1))
        case _:
            return _lower(value)


def _time(value: datetime) -> str | None:
    """In milliseconds, which is what the format promises."""
    if value.tzinfo is None:
        return None
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03}Z"
