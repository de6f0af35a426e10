"""Delta Lake tables, written by delta-rs: no jar, no JVM but Spark's.

Each commit carries the query and the number of the micro-batch (Delta's `txn` action). A commit is tried at one version
only, the one behind the version in which was looked for the number: whoever was there first wins, and the other looks
again. So of two drivers of one query, too, only one writes a batch.

Appended rows are written to files by tasks, and the driver commits the files. Upserts are merged by delta-rs in the
driver's process.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors import changes as by_key
from ottla.pipeline.connectors.arrow_types import arrow_schema, new_columns, without
from ottla.pipeline.connectors.changes import DELETES, Changes
from ottla.pipeline.connectors.contention import TIMES, pause
from ottla.pipeline.connectors.parts import Part, Writing, write_parts
from ottla.pipeline.connectors.port import Batch, DataFrame, Sink, StructType
from ottla.pipeline.connectors.storage import STORAGE_DOC, Location, first_line, location, missing
from ottla.pipeline.options import Span, option
from ottla.pipeline.problems import Problem

_log = logging.getLogger("ottla.pipeline")
_FILE_BYTES: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class DeltaSinkOptions:
    delta: str = option("The table: a folder, or a URL. It is made if it is not there.", example="s3://lake/orders")
    write: str = option(by_key.WRITE_DOC, "append", choices=by_key.WRITES)
    key: tuple[str, ...] = option(by_key.KEY_DOC, ())
    delete_when: str | None = option(by_key.DELETE_WHEN_DOC, None, example="op = 'd'")
    order_by: str | None = option(by_key.ORDER_BY_DOC, None, example="offset")
    leave_out: tuple[str, ...] = option(by_key.LEAVE_OUT_DOC, ())
    partition_by: tuple[str, ...] = option("Columns by whose values a new table's files are divided.", ())
    new_columns: str = option(
        "What happens to columns that the table does not have: they are added to it, or the batch is refused.",
        "add",
        choices=("add", "refuse"),
    )
    compact_every: int = option(
        "After so many micro-batches, small files are put together, and old ones removed. 0 is never.", 100
    )
    keep: Span = option(
        "How long files are kept that compaction or upserts have replaced: readers of older versions need them.",
        Span(7 * 86400),
    )
    compression: str = option("Of the files.", "zstd", choices=("zstd", "snappy", "none"))
    storage: Mapping[str, str] | None = option(STORAGE_DOC, None)

    @property
    def changes(self) -> Changes:
        return Changes(self.key, self.delete_when, self.order_by, self.leave_out)


class DeltaSink(Sink):
    options: ClassVar[type] = DeltaSinkOptions
    doc: ClassVar[str] = (
        "A Delta Lake table, on disk or in an object store, each micro-batch exactly once: append, or upsert and "
        "delete by key. Columns may be added in mid-stream."
    )
    given: DeltaSinkOptions

    @property
    def location(self) -> Location:
        return location(self.given.delta, self.given.storage or {}, self.place)

    def check(self) -> Iterable[Problem]:
        yield from by_key.check_write(self.given.write, self.given.changes)
        if self.given.compact_every < 0:
            yield Problem(("compact-every",), "compact-every is a number of micro-batches, or 0 for never")

    def check_there(self) -> Iterable[Problem]:
        try:
            table = open_table(self.location)
        except OttlaError as error:
            yield Problem(("delta",), str(error))
            return
        if table is not None and self.given.partition_by:
            there = table.metadata().partition_columns
            if list(self.given.partition_by) != there:
                told = f"by {', '.join(there)}" if there else "not at all"
                yield Problem(("partition-by",), f"the table {self.location.url} is there, and partitioned {told}")

    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        named = [*by_key.named_columns(self.given.changes), ("partition-by", self.given.partition_by)]
        yield from by_key.check_columns(named, schema.fieldNames())

    def write(self, rows: DataFrame, batch: Batch) -> None:
        table = open_table(self.location)
        if table is not None and has_batch(table, batch):
            return
        if self.given.write == "upsert":
            self._upsert(rows, batch)
        else:
            self._append(rows, batch)
        if self.given.compact_every and batch.id % self.given.compact_every == self.given.compact_every - 1:
            self._tidy()

    # -- append

    def _append(self, rows: DataFrame, batch: Batch) -> None:
        rows = rows.drop(*by_key.not_written(rows.columns, self.given.leave_out, self.given.partition_by))
        table = self._table_for(arrow_schema(rows.schema))
        schema = _schema(table)
        parts = write_parts(
            rows,
            Writing(
                self.location,
                schema,
                partition_by=tuple(table.metadata().partition_columns),
                compression=self.given.compression,
                max_file_bytes=_FILE_BYTES,
                prefix=f"part-{batch.id:09}",
                plain_folders=True,
            ),
        )
        if parts:
            actions = [_add(part) for part in parts]

            def commit(table: Any) -> None:
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    table.metadata().partition_columns,
                    commit_properties=marking(batch),
                )

            self._commit(batch, commit)

    # -- upsert

    def _upsert(self, rows: DataFrame, batch: Batch) -> None:
        changes = self.given.changes.of_rows(rows.columns, *self.given.partition_by)
        changed = by_key.latest(by_key.marked(rows, changes).toArrow(), changes)
        if not changed.num_rows:
            return
        schema = without(arrow_schema(rows.schema), changes.leave_out)
        self._table_for(schema)

        def commit(table: Any) -> None:
            self._merge(table, changed, schema, batch)

        self._commit(batch, commit)

    def _merge(self, table: Any, changed: Any, schema: Any, batch: Batch) -> None:
        import pyarrow as pa
        from deltalake import WriterProperties

        wanted = {field.name: field for field in _schema(table)}
        fields = [wanted[field.name] for field in schema]
        source = changed.select([*schema.names, DELETES]).cast(pa.schema([*fields, pa.field(DELETES, pa.bool_())]))
        columns = {f"t.`{name}`": f"s.`{name}`" for name in schema.names}
        (
            table.merge(
                source,
                " AND ".join(f"t.`{name}` = s.`{name}`" for name in self.given.key),
                source_alias="s",
                target_alias="t",
                streamed_exec=False,
                writer_properties=WriterProperties(**_COMPRESSION[self.given.compression]),
                commit_properties=marking(batch),
            )
            .when_matched_delete(f"s.`{DELETES}`")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, predicate=f"NOT s.`{DELETES}`")
            .execute()
        )

    # -- both

    def _table_for(self, rows: Any) -> Any:
        """The table, with all columns that these rows have. Adding some is a commit of its own, which harms nobody."""
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import DeltaError

        for time_left in reversed(range(TIMES)):
            table = open_table(self.location)
            try:
                if table is None:
                    DeltaTable.create(
                        self.location.url,
                        Schema.from_arrow(rows),
                        mode="ignore",
                        partition_by=list(self.given.partition_by) or None,
                        storage_options=self.location.settings() or None,
                    )
                    continue
                new = new_columns(_schema(table), rows, self._name, may_add=self.given.new_columns == "add")
                if not new:
                    return table
                import pyarrow as pa

                _log.warning("%s gets new columns: %s", self._name, ", ".join(field.name for field in new))
                table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)
            except (DeltaError, OSError) as error:
                if not time_left:
                    raise OttlaError(f"{self._name} cannot be written to: {first_line(error)}") from error
                pause(time_left)
        raise AssertionError

    def _commit(self, batch: Batch, commit: Callable[[Any], None]) -> None:
        from deltalake.exceptions import CommitFailedError, DeltaError

        for time_left in reversed(range(TIMES)):
            table = open_table(self.location)
            if table is None:
                raise OttlaError(f"{self._name} has been deleted while it was written")
            if has_batch(table, batch):
                return
            try:
                return commit(table)
            except CommitFailedError as error:  # somebody else has written
                if not time_left:
                    raise OttlaError(
                        f"others write to {self._name} so often that nothing can be committed: {first_line(error)}"
                    ) from error
                pause(time_left)
            except (DeltaError, OSError) as error:
                raise OttlaError(f"{self._name} cannot be written to: {first_line(error)}") from error

    def _tidy(self) -> None:
        """Nothing depends on it: what fails today is done another time."""
        try:
            table = open_table(self.location)
            if table is not None:
                from deltalake import WriterProperties

                writer = WriterProperties(**_COMPRESSION[self.given.compression])
                table.optimize.compact(target_size=_FILE_BYTES, writer_properties=writer)
                hours = max(round(self.given.keep.seconds / 3600), 0)
                table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)
        except Exception as error:
            _log.warning("the files of %s were not put together: %s", self._name, first_line(error))

    @property
    def _name(self) -> str:
        return f"the Delta table {self.location.url}"


_COMPRESSION: Final[Mapping[str, dict[str, Any]]] = {
    "zstd": {"compression": "ZSTD", "compression_level": 1},
    "snappy": {"compression": "SNAPPY"},
    "none": {"compression": "UNCOMPRESSED"},
}


def open_table(where: Location) -> Any:
    """None if there is none."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ModuleNotFoundError as error:
        raise missing(error) from None
    try:
        return DeltaTable(where.url, storage_options=where.settings() or None)
    except TableNotFoundError:
        return None
    except (DeltaError, OSError, ValueError) as error:
        raise OttlaError(f"the Delta table {where.url} cannot be read: {first_line(error)}") from error


def has_batch(table: Any, batch: Batch) -> bool:
    done = table.transaction_version(batch.query)
    if done is None or done < batch.id:
        return False
    _log.warning("batch %d of %s is in %s already and was not written again", batch.id, batch.query, table.table_uri)
    return True


def marking(batch: Batch) -> Any:
    from deltalake import CommitProperties, Transaction

    mark = Transaction(batch.query, batch.id, int(time.time() * 1000))
    return CommitProperties(max_commit_retries=0, app_transactions=[mark])


def _schema(table: Any) -> Any:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow())


def _add(part: Part) -> Any:
    from deltalake.transaction import AddAction

    return AddAction(
        path=part.path,
        size=part.size,
        partition_values=part.partition,
        modification_time=int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(part.stats),
    )
