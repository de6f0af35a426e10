"""Connections to PostgreSQL, its names, and its types as Spark's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.pipeline.connectors.passwords import without_password
from ottla.pipeline.connectors.storage import first_line, missing

if TYPE_CHECKING:
    import psycopg

POSTGRES_DOC: Final = (
    "The database, as libpq reads it: postgresql://user@host/database, or host=... dbname=.... A password is best kept "
    "in PGPASSWORD or ~/.pgpass."
)
CHANGE_COLUMNS: Final = {
    "key": "STRING",
    "value": "STRING",
    "op": "STRING",
    "schema": "STRING",
    "table": "STRING",
    "unchanged": "ARRAY<STRING>",
    "lsn": "BIGINT",
    "xid": "BIGINT",
    "sequence": "INT",
    "committed_at": "TIMESTAMP",
}
"""Of a captured change."""
_SETTINGS: Final = (
    "-c datestyle=ISO -c timezone=UTC -c intervalstyle=iso_8601 -c bytea_output=hex -c extra_float_digits=1"
)
_SPARK_TYPES: Final = {
    16: "BOOLEAN", 21: "SMALLINT", 23: "INT", 20: "BIGINT", 26: "BIGINT", 700: "FLOAT", 701: "DOUBLE", 17: "BINARY",
    1082: "DATE", 1114: "TIMESTAMP_NTZ", 1184: "TIMESTAMP",
}  # fmt: skip
_NUMERIC: Final = 1700


def connect(dsn: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    try:
        import psycopg
    except ModuleNotFoundError as error:
        raise missing(error) from None
    try:
        return psycopg.connect(
            dsn, autocommit=autocommit, connect_timeout=10, options=_SETTINGS, application_name="ottla"
        )
    except (psycopg.Error, ValueError) as error:
        raise OttlaError(f"PostgreSQL ({without_password(dsn)}) cannot be reached: {first_line(error)}") from error


class Line:
    """A connection that is kept for those who ask often, and made anew after an error."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._open: psycopg.Connection[Any] | None = None

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        import psycopg

        if self._open is None or self._open.closed:
            self._open = connect(self._dsn)
        try:
            yield self._open
        except psycopg.Error as error:
            self.close()
            raise OttlaError(f"PostgreSQL ({without_password(self._dsn)}) fails: {first_line(error)}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class Table(NamedTuple):
    schema: str
    name: str

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    def __str__(self) -> str:
        return self.name if self.schema == "public" else f"{self.schema}.{self.name}"


def table_named(text: str) -> Table:
    schema, dot, name = text.strip().rpartition(".")
    return Table(schema if dot else "public", name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class Column(NamedTuple):
    name: str
    type: int
    sql_type: str
    """As PostgreSQL writes it."""
    modifier: int
    is_array: bool

    @property
    def spark_type(self) -> str:
        if self.type == _NUMERIC:
            if self.modifier < 0:
                return "DECIMAL(38, 18)"
            precision, scale = (self.modifier - 4) >> 16, (self.modifier - 4) & 0x7FF
            return f"DECIMAL({precision}, {scale})" if precision <= 38 and scale <= precision else "STRING"
        return _SPARK_TYPES.get(self.type, "STRING")


def columns_of(connection: psycopg.Connection[Any], table: Table) -> list[Column]:
    """Empty if the table is not there."""
    found = connection.execute(
        "SELECT a.attname, a.atttypid::bigint, format_type(a.atttypid, a.atttypmod), a.atttypmod, t.typcategory = 'A' "
        "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        (table.schema, table.name),
    )
    return [Column(*row) for row in found]


def primary_key(connection: psycopg.Connection[Any], table: Table) -> tuple[str, ...]:
    found = connection.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN unnest(i.indkey) WITH ORDINALITY k(attnum, place) ON true "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum "
        "WHERE i.indisprimary AND n.nspname = %s AND c.relname = %s ORDER BY k.place",
        (table.schema, table.name),
    )
    return tuple(name for (name,) in found)


def table_names(connection: psycopg.Connection[Any]) -> list[str]:
    found = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    )
    return [str(Table(*row)) for row in found]


def not_there(connection: psycopg.Connection[Any], tables: Sequence[Table]) -> str | None:
    """What to say about the first of these tables that is not there."""
    there = table_names(connection)
    for table in tables:
        if str(table) not in there:
            return f"there is no table {table} in the database{did_you_mean(str(table), there)}"
    return None
