"""Tables of PostgreSQL, each micro-batch exactly once.

A table `ottla_batches` has the last batch of each query. A transaction first moves its row on, which fails if the batch
is there already and waits while another driver writes the same, then writes the rows. So both are there or neither is.
Rows go from Arrow to PostgreSQL as CSV, by COPY: no row is a Python object.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.pipeline.connectors import changes as by_key
from ottla.pipeline.connectors.changes import DELETES, Changes
from ottla.pipeline.connectors.passwords import without_password
from ottla.pipeline.connectors.port import Batch, DataFrame, Sink, StructType
from ottla.pipeline.connectors.postgres import (
    POSTGRES_DOC,
    Column,
    Table,
    columns_of,
    connect,
    not_there,
    primary_key,
    quoted,
    table_named,
)
from ottla.pipeline.connectors.storage import first_line
from ottla.pipeline.options import Span, option
from ottla.pipeline.problems import Problem

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

_log = logging.getLogger("ottla.pipeline")
_BATCHES: Final = "ottla_batches"
_DDL_LOCK: Final = 0x6F74746C61
_INCOMING: Final = "ottla_incoming"
_SQL_TYPES: Final = {
    "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer", "bigint": "bigint",
    "float": "real", "double": "double precision", "string": "text", "binary": "bytea", "date": "date",
    "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PostgresSinkOptions:
    postgres: str = option(POSTGRES_DOC, example="postgresql://shop@db/shop")
    table: str = option("The table, with its schema unless that is public. It is made if it is not there.")
    write: str = option(by_key.WRITE_DOC, "upsert", choices=by_key.WRITES)
    key: tuple[str, ...] = option(f"{by_key.KEY_DOC} Unless said, the table's primary key.", ())
    delete_when: str | None = option(by_key.DELETE_WHEN_DOC, None, example="op = 'd'")
    order_by: str | None = option(by_key.ORDER_BY_DOC, None, example="lsn")
    leave_out: tuple[str, ...] = option(by_key.LEAVE_OUT_DOC, ())
    new_columns: str = option(
        "What happens to columns that the table does not have: they are added to it, or the batch is refused.",
        "refuse",
        choices=("add", "refuse"),
    )
    retry_for: Span = option("How long a database that is away is waited for before the pipeline fails.", Span(60))


class PostgresSink(Sink):
    options: ClassVar[type] = PostgresSinkOptions
    doc: ClassVar[str] = (
        "A table of PostgreSQL, each micro-batch exactly once: upsert and delete by key, or append. The table "
        f"{_BATCHES} remembers which batches are there, in the same transaction."
    )
    given: PostgresSinkOptions

    @property
    def what(self) -> str:
        return f"{super().what} {self.given.table}"

    @property
    def _table(self) -> Table:
        return table_named(self.given.table)

    def check(self) -> Iterable[Problem]:
        changes = self._changes(self.given.key or ("?",))
        if self.given.write == "append":
            yield from by_key.check_write("append", self._changes(self.given.key))
        else:
            yield from by_key.check_write(self.given.write, changes)

    def check_there(self) -> Iterable[Problem]:
        try:
            with connect(self.given.postgres) as connection:
                there = not_there(connection, [self._table]) is None
                if self.given.write == "upsert" and not self.given.key:
                    if not there:
                        yield Problem(
                            ("table",), f"the table {self._table} is not there, and without a key it cannot be made"
                        )
                    elif not primary_key(connection, self._table):
                        yield Problem(
                            ("table",), f"the table {self._table} has no primary key: key must name the columns"
                        )
        except OttlaError as error:
            yield Problem(("postgres",), str(error))

    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        yield from by_key.check_columns(by_key.named_columns(self._changes(self.given.key)), schema.fieldNames())

    def write(self, rows: DataFrame, batch: Batch) -> None:
        import psycopg

        until = time.monotonic() + self.given.retry_for.seconds
        pause = 0.1
        incoming: pa.Table | None = None
        while True:
            try:
                with connect(self.given.postgres, autocommit=False) as connection:
                    if self._is_there(connection, batch):
                        return
                    key = self._prepare(connection, rows.schema)
                    if incoming is None:
                        incoming = self._incoming(rows, key)
                    if incoming.num_rows:
                        self._write(connection, incoming, rows.schema, key, batch)
                return
            except (psycopg.OperationalError, OttlaError) as error:
                # also if the connection was lost while committing: what became of it is seen next time
                away = isinstance(error, psycopg.OperationalError) or isinstance(
                    error.__cause__, psycopg.OperationalError
                )
                if not away or time.monotonic() + pause > until:
                    raise OttlaError(f"{self._name} cannot be written to: {first_line(error)}") from error
                _log.warning("%s cannot be written to now, and is tried again: %s", self._name, first_line(error))
                time.sleep(pause)
                pause = min(pause * 2, 5.0)
            except psycopg.Error as error:
                raise OttlaError(f"{self._name} refuses the rows of batch {batch.id}: {_told(error)}") from error

    # -- what is there

    def _is_there(self, connection: psycopg.Connection[Any], batch: Batch) -> bool:
        """In a transaction of its own, before rows are computed; _write makes sure."""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_DDL_LOCK,))
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {_BATCHES} "
            "(query text PRIMARY KEY, batch bigint NOT NULL, at timestamptz NOT NULL)"
        )
        found = connection.execute(f"SELECT batch FROM {_BATCHES} WHERE query = %s", (batch.query,)).fetchone()
        connection.commit()
        if found is None or found[0] < batch.id:
            return False
        _log.warning("batch %d of %s is in %s already and was not written again", batch.id, batch.query, self._name)
        return True

    def _prepare(self, connection: psycopg.Connection[Any], schema: StructType) -> tuple[str, ...]:
        """The table, with the columns that it needs; which are its key."""
        left_out = self._changes(self.given.key).of_rows(schema.fieldNames()).leave_out
        fields = {one.name: one.dataType for one in schema.fields if one.name not in left_out}
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_DDL_LOCK,))
        there = {column.name for column in columns_of(connection, self._table)}
        if not there:
            self._create(connection, fields)
        elif lacking := [name for name in fields if name not in there]:
            if self.given.new_columns == "refuse":
                near = did_you_mean(lacking[0], there)
                raise OttlaError(
                    f"{self._table} has no column {', '.join(lacking)}{near}. new-columns: add lets it grow, leave-out "
                    "leaves columns out"
                )
            for name in lacking:
                _log.warning("%s gets a new column: %s", self._name, name)
                connection.execute(f"ALTER TABLE {self._table.sql} ADD COLUMN {quoted(name)} {sql_type(fields[name])}")
        key = self.given.key
        if self.given.write == "upsert" and not key:
            key = primary_key(connection, self._table)
            if not key:
                raise OttlaError(f"{self._table} has no primary key: key must name the columns")
        if lacking := [name for name in key if name not in fields]:
            raise OttlaError(f"rows have no column {', '.join(lacking)}, which is (part of) the key")
        connection.commit()
        return key

    def _create(self, connection: psycopg.Connection[Any], fields: dict[str, Any]) -> None:
        if self.given.write == "upsert" and not self.given.key:
            raise OttlaError(f"the table {self._table} is not there, and without a key it cannot be made")
        columns = [f"{quoted(name)} {sql_type(kind)}" for name, kind in fields.items()]
        if self.given.key:
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, self.given.key))})")
        connection.execute(f"CREATE TABLE {self._table.sql} ({', '.join(columns)})")

    # -- rows

    def _changes(self, key: tuple[str, ...]) -> Changes:
        return Changes(key, self.given.delete_when, self.given.order_by, self.given.leave_out)

    def _incoming(self, rows: DataFrame, key: tuple[str, ...]) -> pa.Table:
        """All that goes to PostgreSQL, in types that have a text there."""
        from pyspark.sql import functions as f

        changes = self._changes(key).of_rows(rows.columns)
        upserts = self.given.write == "upsert"
        found = by_key.marked(rows, changes) if upserts else rows
        columns = []
        for one in found.schema.fields:
            if one.name in changes.leave_out and one.name != changes.order_by:
                continue
            column, kind = f.col(f"`{one.name}`"), one.dataType.typeName()
            if kind == "binary":
                column = f.concat(f.lit("\\x"), f.hex(column))
            elif kind in ("struct", "map", "array", "variant"):
                column = f.to_json(column)
            columns.append(column.alias(one.name))
        table = found.select(*columns).toArrow()
        return (by_key.latest(table, changes) if upserts else table).drop_columns(
            [name for name in table.column_names if name in changes.leave_out]
        )

    def _write(
        self,
        connection: psycopg.Connection[Any],
        incoming: pa.Table,
        schema: StructType,
        key: tuple[str, ...],
        batch: Batch,
    ) -> None:
        moved = connection.execute(
            f"INSERT INTO {_BATCHES} AS b VALUES (%s, %s, now()) ON CONFLICT (query) DO UPDATE "
            "SET batch = excluded.batch, at = excluded.at WHERE b.batch < excluded.batch RETURNING 1",
            (batch.query, batch.id),
        ).fetchone()
        if moved is None:
            connection.rollback()
            return
        nested = {one.name for one in schema.fields if one.dataType.typeName() in ("struct", "map", "array", "variant")}
        columns = {column.name: column for column in columns_of(connection, self._table)}
        told = [
            f"{quoted(name)} {'boolean' if name == DELETES else 'jsonb' if name in nested else columns[name].sql_type}"
            for name in incoming.column_names
        ]
        connection.execute(f"CREATE TEMP TABLE {_INCOMING} ({', '.join(told)}) ON COMMIT DROP")
        copy_in(connection, incoming)
        written = [name for name in incoming.column_names if name != DELETES]
        self._merge(connection, [columns[name] for name in written], nested, key)
        connection.commit()

    def _merge(
        self, connection: psycopg.Connection[Any], columns: list[Column], nested: set[str], key: tuple[str, ...]
    ) -> None:
        names = ", ".join(quoted(column.name) for column in columns)
        values = ", ".join(_value(column, nested) for column in columns)
        if self.given.write == "append":
            connection.execute(f"INSERT INTO {self._table.sql} ({names}) SELECT {values} FROM {_INCOMING} i")
            return
        same = " AND ".join(f"t.{quoted(name)} = i.{quoted(name)}" for name in key)
        connection.execute(f"DELETE FROM {self._table.sql} t USING {_INCOMING} i WHERE i.{DELETES} AND {same}")
        others = [quoted(column.name) for column in columns if column.name not in key]
        sets = ", ".join(f"{name} = excluded.{name}" for name in others)
        does = f"UPDATE SET {sets}" if others else "NOTHING"
        connection.execute(
            f"INSERT INTO {self._table.sql} ({names}) SELECT {values} FROM {_INCOMING} i WHERE NOT i.{DELETES} "
            f"ON CONFLICT ({', '.join(map(quoted, key))}) DO {does}"
        )

    @property
    def _name(self) -> str:
        return f"the table {self._table} of PostgreSQL ({without_password(self.given.postgres)})"


def copy_in(connection: psycopg.Connection[Any], rows: pa.Table) -> None:
    import pyarrow as pa
    import pyarrow.csv

    class Out:
        closed = False

        def __init__(self, copy: Any) -> None:
            self._copy = copy

        def write(self, data: bytes) -> int:
            self._copy.write(data)
            return len(data)

        def flush(self) -> None:
            pass

        def close(self) -> None:
            pass

    # what has a value is quoted, null is nothing: as PostgreSQL reads CSV
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid", batch_size=8192)
    with connection.cursor() as cursor, cursor.copy(f"COPY {_INCOMING} FROM STDIN (FORMAT csv)") as copy:
        pyarrow.csv.write_csv(rows, pa.PythonFile(Out(copy), mode="w"), options)


def _value(column: Column, nested: set[str]) -> str:
    name = f"i.{quoted(column.name)}"
    if column.name not in nested:
        return name
    if column.is_array:
        return (
            f"CASE WHEN {name} IS NULL THEN NULL ELSE ARRAY(SELECT jsonb_array_elements_text({name}))"
            f"::{column.sql_type} END"
        )
    return f"{name}::{column.sql_type}"


def sql_type(kind: Any) -> str:
    """For a column of Spark's type, in a table that is made here."""
    name = kind.simpleString()
    if name.startswith("decimal"):
        return str(name.replace("decimal", "numeric"))
    return _SQL_TYPES.get(name, "jsonb")


def _told(error: Any) -> str:
    detail = getattr(getattr(error, "diag", None), "message_detail", None)
    return first_line(error) + (f" ({detail})" if detail else "")
