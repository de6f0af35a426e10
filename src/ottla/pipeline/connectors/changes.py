"""Rows that change a table by key: the last row of each key in a micro-batch counts, and some delete.

Sinks with `write: upsert` share these options, and what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.pipeline.problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

KEY_DOC: Final = "The columns that say which row of the table is meant; with `write: upsert`."
DELETE_WHEN_DOC: Final = (
    "A condition in SQL, with `write: upsert`: rows for which it holds delete what has their key. Without it these are "
    "rows of which every column but the key is null, as tombstones are."
)
ORDER_BY_DOC: Final = (
    "With `write: upsert`: of rows with the same key in a micro-batch, the one with the greatest value in this column "
    "counts. Without it this is the last one; the order is that of the topic unless a step has shuffled rows."
)
LEAVE_OUT_DOC: Final = (
    "Columns that are not written, such as those that only delete-when or order-by look at. Those that begin with an "
    "underscore, as `_offset` does, never are, unless they are (part of) the key."
)
WRITE_DOC: Final = "append adds rows; upsert changes, adds and deletes rows by key."
WRITES: Final = ("append", "upsert")
DELETES: Final = "__ottla_deletes"
"""The column that tells rows that delete, on their way."""


@dataclass(frozen=True, slots=True)
class Changes:
    key: tuple[str, ...]
    delete_when: str | None
    order_by: str | None
    leave_out: tuple[str, ...]

    def of_rows(self, columns: Iterable[str], *kept: str) -> Changes:
        """With all that is left out of rows with these columns."""
        return replace(self, leave_out=not_written(columns, self.leave_out, (*self.key, *kept)))


def not_written(columns: Iterable[str], leave_out: Iterable[str], kept: Iterable[str] = ()) -> tuple[str, ...]:
    named, kept = set(leave_out), set(kept)
    return tuple(name for name in columns if name in named or (name.startswith("_") and name not in kept))


def check_write(write: str, changes: Changes) -> Iterable[Problem]:
    if write == "upsert" and not changes.key:
        yield Problem(("write",), "write: upsert needs a key: the columns that say which row is meant")
    if write == "append":
        for name, value in (("key", changes.key), ("delete-when", changes.delete_when), ("order-by", changes.order_by)):
            if value:
                yield Problem((name,), f"{name} is for write: upsert, and this is append", at_name=True)


def check_columns(named: Sequence[tuple[str, Iterable[str]]], there: Sequence[str]) -> Iterable[Problem]:
    """Options that name columns, against the columns that there are."""
    for option, columns in named:
        for column in columns:
            if column not in there:
                near = did_you_mean(column, there) or f"; there are {', '.join(there)}"
                yield Problem((option,), f"{option} names the column {column}, which rows do not have{near}")


def named_columns(changes: Changes) -> list[tuple[str, Iterable[str]]]:
    order = () if changes.order_by is None else (changes.order_by,)
    return [("key", changes.key), ("order-by", order), ("leave-out", changes.leave_out)]


def marked(rows: Any, changes: Changes) -> Any:
    """The DataFrame with a column that says which rows delete."""
    from pyspark.sql import functions as f

    if changes.delete_when is not None:
        return rows.withColumn(DELETES, f.coalesce(f.expr(changes.delete_when), f.lit(False)))
    others = [name for name in rows.columns if name not in changes.key and name not in changes.leave_out]
    condition = f.lit(bool(others))
    for name in others:
        condition = condition & f.col(f"`{name}`").isNull()
    return rows.withColumn(DELETES, condition)


def latest(rows: pa.Table, changes: Changes) -> pa.Table:
    """The row of each key that counts. OttlaError if a key is null: it would never be found again."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name in changes.key:
        if rows.column(name).null_count:
            raise OttlaError(
                f"{rows.column(name).null_count} of {rows.num_rows} rows have no {name}, which is (part of) the key; "
                f"leave them out by a step: WHERE {name} IS NOT NULL"
            )
    numbered = pa.table({name: rows.column(name) for name in changes.key})
    if changes.order_by is not None:
        order = pc.sort_indices(rows.column(changes.order_by))  # those that have none are last, and come to the front
        order = pc.take(order, _nulls_first(rows.num_rows, rows.column(changes.order_by).null_count))
        rows, numbered = rows.take(order), numbered.take(order)
    place = pa.chunked_array([_count(rows.num_rows)])
    found = numbered.append_column("__place", place).group_by(list(changes.key)).aggregate([("__place", "max")])
    last = found.column("__place_max").combine_chunks()
    if len(last) == rows.num_rows:
        return rows
    return rows.take(pc.take(last, pc.sort_indices(last)))


def _nulls_first(rows: int, nulls: int) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.roll(np.arange(rows, dtype=np.int64), nulls))


def _count(rows: int) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.arange(rows, dtype=np.int64))
