"""Apache Iceberg tables, written by pyiceberg: no jar.

A commit sets the property `ottla.batch.<query>` of the table, together with the snapshot. It is tried against one state
of the table only, the one in which was looked for the batch: whoever was there first wins, and the other looks again.
Rows go through the driver.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.pipeline.connectors import changes as by_key
from ottla.pipeline.connectors.arrow_types import arrow_schema, new_columns, without
from ottla.pipeline.connectors.changes import DELETES, Changes
from ottla.pipeline.connectors.contention import TIMES, pause
from ottla.pipeline.connectors.iceberg_catalog import CATALOG_DOC, open_catalog, open_table
from ottla.pipeline.connectors.iceberg_compaction import put_together
from ottla.pipeline.connectors.port import Batch, DataFrame, Sink, StructType
from ottla.pipeline.connectors.storage import first_line
from ottla.pipeline.options import Span, option
from ottla.pipeline.problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("ottla.pipeline")
_BATCH: Final = "ottla.batch."
_NO_RETRIES: Final = {"commit.retry.num-retries": "0"}
_TRANSFORMS: Final = ("year", "month", "day", "hour", "bucket", "truncate")
_PARTITION: Final = re.compile(r"(?:(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?)?([^(),]+?)\s*\)?")


@dataclass(frozen=True, slots=True)
class IcebergSinkOptions:
    iceberg: str = option("The table with its namespace. Both are made if they are not there.", example="shop.orders")
    catalog: Mapping[str, str] | None = option(CATALOG_DOC, None)
    write: str = option(by_key.WRITE_DOC, "append", choices=by_key.WRITES)
    key: tuple[str, ...] = option(by_key.KEY_DOC, ())
    delete_when: str | None = option(by_key.DELETE_WHEN_DOC, None, example="op = 'd'")
    order_by: str | None = option(by_key.ORDER_BY_DOC, None, example="offset")
    leave_out: tuple[str, ...] = option(by_key.LEAVE_OUT_DOC, ())
    partition_by: tuple[str, ...] = option(
        "How a new table's files are divided: columns, or year, month, day, hour, bucket(16, id), truncate(4, name) of "
        "them.",
        (),
        example="day(at)",
    )
    new_columns: str = option(
        "What happens to columns that the table does not have: they are added to it, or the batch is refused.",
        "add",
        choices=("add", "refuse"),
    )
    compact_every: int = option(
        "After so many micro-batches, small files are put together, and old snapshots forgotten. 0 is never.", 100
    )
    keep: Span = option("How long snapshots are kept.", Span(7 * 86400))

    @property
    def changes(self) -> Changes:
        return Changes(self.key, self.delete_when, self.order_by, self.leave_out)


class IcebergSink(Sink):
    options: ClassVar[type] = IcebergSinkOptions
    doc: ClassVar[str] = (
        "An Apache Iceberg table, each micro-batch exactly once: append, or upsert and delete by key. Columns may be "
        "added in mid-stream."
    )
    given: IcebergSinkOptions

    def check(self) -> Iterable[Problem]:
        yield from by_key.check_write(self.given.write, self.given.changes)
        if "." not in self.given.iceberg:
            yield Problem(("iceberg",), "a table is named with its namespace, as shop.orders")
        if self.given.compact_every < 0:
            yield Problem(("compact-every",), "compact-every is a number of micro-batches, or 0 for never")
        for text in self.given.partition_by:
            name = _partition(text)[0]
            if name is not None and name not in _TRANSFORMS:
                near = did_you_mean(name, _TRANSFORMS)
                yield Problem(("partition-by",), f"there is no {name}() to divide files by{near}")

    def check_there(self) -> Iterable[Problem]:
        try:
            open_table(open_catalog(self.given.catalog, self.place), self.given.iceberg)
        except OttlaError as error:
            yield Problem(("catalog",), str(error))

    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        divided = ("partition-by", self._divided_by)
        yield from by_key.check_columns([*by_key.named_columns(self.given.changes), divided], schema.fieldNames())

    def write(self, rows: DataFrame, batch: Batch) -> None:
        catalog = open_catalog(self.given.catalog, self.place)
        table = open_table(catalog, self.given.iceberg)
        if table is not None and has_batch(table, batch):
            return
        changed = self._changed(rows)
        if not changed.num_rows:
            return
        left_out = self.given.changes.of_rows(rows.columns, *self._divided_by).leave_out
        self._make_fit(catalog, without(arrow_schema(rows.schema), left_out))
        self._commit(catalog, changed, batch)
        if self.given.compact_every and batch.id % self.given.compact_every == self.given.compact_every - 1:
            self._tidy(catalog)

    def _changed(self, rows: DataFrame) -> pa.Table:
        changes = self.given.changes.of_rows(rows.columns, *self._divided_by)
        if self.given.write == "append":
            return rows.drop(*changes.leave_out).toArrow()
        return by_key.latest(by_key.marked(rows, changes).toArrow(), changes).drop_columns(list(changes.leave_out))

    def _make_fit(self, catalog: Any, rows: pa.Schema) -> None:
        """Makes the table, or adds columns to it: commits of their own, which harm nobody."""
        for time_left in reversed(range(TIMES)):
            table = open_table(catalog, self.given.iceberg)
            try:
                if table is None:
                    self._create(catalog, rows)
                    continue
                new = new_columns(_schema(table), rows, self._name, may_add=self.given.new_columns == "add")
                if new:
                    _log.warning("%s gets new columns: %s", self._name, ", ".join(field.name for field in new))
                    import pyarrow as pa

                    with table.update_schema() as update:
                        update.union_by_name(pa.schema(new))
                return
            except OttlaError:
                raise
            except Exception as error:
                if not time_left:
                    raise OttlaError(f"{self._name} cannot be written to: {first_line(error)}") from error
                pause(time_left)

    def _create(self, catalog: Any, rows: pa.Schema) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        catalog.create_namespace_if_not_exists(self.given.iceberg.rpartition(".")[0])
        try:
            table = catalog.create_table(self.given.iceberg, schema=rows)
        except TableAlreadyExistsError:
            return
        if self.given.partition_by:
            with table.update_spec() as update:
                for text in self.given.partition_by:
                    update.add_field(*_transform(text))

    def _commit(self, catalog: Any, changed: pa.Table, batch: Batch) -> None:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        for time_left in reversed(range(TIMES)):
            table = open_table(catalog, self.given.iceberg)
            if table is None:
                raise OttlaError(f"{self._name} has been deleted while it was written")
            if has_batch(table, batch):
                return
            try:
                return self._write(_without_retries(table), changed, batch)
            except (CommitFailedException, ValidationException) as error:
                if not time_left:
                    raise OttlaError(
                        f"others write to {self._name} so often that nothing can be committed: {first_line(error)}"
                    ) from error
                pause(time_left)
            except OttlaError:
                raise
            except Exception as error:
                raise OttlaError(f"{self._name} cannot be written to: {first_line(error)}") from error

    def _write(self, table: Any, changed: pa.Table, batch: Batch) -> None:
        import pyarrow.compute as pc
        from pyiceberg.table.upsert_util import create_match_filter

        told = {"ottla.query": batch.query, "ottla.batch": str(batch.id)}
        added = changed
        with table.transaction() as transaction:
            if self.given.write == "upsert":
                if table.current_snapshot() is not None:
                    keys = create_match_filter(changed, list(self.given.key))
                    transaction.delete(keys, snapshot_properties=told)
                added = changed.filter(pc.invert(changed.column(DELETES))).drop_columns([DELETES])
            if added.num_rows:
                transaction.append(_fitting(added, _schema(table)), snapshot_properties=told)
            transaction.set_properties({f"{_BATCH}{batch.query}": str(batch.id)})

    def _tidy(self, catalog: Any) -> None:
        """Nothing depends on it: what fails today is done another time."""
        try:
            put_together(_without_retries(catalog.load_table(self.given.iceberg)))
            before = datetime.now() - timedelta(seconds=self.given.keep.seconds)
            catalog.load_table(self.given.iceberg).maintenance.expire_snapshots().older_than(before).commit()
        except Exception as error:
            _log.warning("the files of %s were not put together: %s", self._name, first_line(error))

    @property
    def _divided_by(self) -> tuple[str, ...]:
        """Columns; they are written even if they begin with an underscore."""
        return tuple(_partition(text)[2] for text in self.given.partition_by)

    @property
    def _name(self) -> str:
        return f"the Iceberg table {self.given.iceberg}"


def _without_retries(table: Any) -> Any:
    """In this process only: a commit that is tried again must look at the table again."""
    properties = {**table.metadata.properties, **_NO_RETRIES}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def has_batch(table: Any, batch: Batch) -> bool:
    done = table.properties.get(f"{_BATCH}{batch.query}")
    if done is None or int(done) < batch.id:
        return False
    _log.warning("batch %d of %s is in the Iceberg table already and was not written again", batch.id, batch.query)
    return True


def _schema(table: Any) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(one.name, one.type, one.nullable) for one in table.schema().as_arrow()])


def _fitting(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    wanted = [field for field in schema if field.name in rows.column_names]
    return pa.table([rows.column(field.name).cast(field.type) for field in wanted], schema=pa.schema(wanted))


def _partition(text: str) -> tuple[str | None, int | None, str]:
    """bucket(16, id): the transform, its number, the column."""
    found = _PARTITION.fullmatch(text.strip())
    if found is None:
        return None, None, text
    return found[1], None if found[2] is None else int(found[2]), found[3]


def _transform(text: str) -> tuple[str, Any, str]:
    from pyiceberg.transforms import parse_transform

    name, number, column = _partition(text)
    if name is None:
        return column, parse_transform("identity"), column
    written = name if number is None else f"{name}[{number}]"
    return column, parse_transform(written), f"{column}_{name}"
