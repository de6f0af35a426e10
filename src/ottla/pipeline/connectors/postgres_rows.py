"""A table of PostgreSQL as Spark reads it: all of it, or as a stream by a column that grows.

A sequence's numbers and times of changes are given when a transaction runs, and seen when it commits: a greater one may
be there before a lesser one is. So the greatest value that is seen is believed only when all transactions have ended
that ran when it was seen; those that begin later get greater values.

Rows come as CSV, by COPY, and become Arrow columns without a Python object for each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.postgres import (
    Column,
    Line,
    columns_of,
    connect,
    literal,
    not_there,
    quoted,
    table_named,
)
from ottla.pipeline.connectors.storage import first_line

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT: Final = "ottla-postgres"
_IDLE_S: Final = 0.1  # Spark asks again at once


@dataclass(frozen=True, slots=True)
class Reading:
    """Sent to tasks as JSON."""

    dsn: str
    table: str
    grows_by: str | None
    start_after: str | None
    max_rows: int

    def to_options(self) -> dict[str, str]:
        return {"reading": json.dumps(asdict(self))}


class PostgresRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    @property
    def _reading(self) -> Reading:
        return Reading(**json.loads(self.options["reading"]))

    def schema(self) -> str:
        return ", ".join(f"`{column.name}` {column.spark_type}" for column in _columns(self._reading))

    def reader(self, schema: Any) -> TableReader:
        return TableReader(self._reading)

    def streamReader(self, schema: Any) -> GrowingReader:
        return GrowingReader(self._reading)


class Task(InputPartition):
    def __init__(self, after: str | None, up_to: str | None) -> None:
        super().__init__(None)
        self.after = after
        self.up_to = up_to


class TableReader(DataSourceReader):
    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def partitions(self) -> list[Task]:
        return [Task(None, None)]

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        return read_rows(self.reading, partition)


class GrowingReader(DataSourceStreamReader):
    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self._waiting: tuple[str, set[str]] | None = None
        """A value, and the transactions that ran when it was seen."""
        self._line = Line(reading.dsn)

    def __reduce__(self) -> tuple[Any, ...]:
        return (GrowingReader, (self.reading,))

    def initialOffset(self) -> dict[str, Any]:
        return {"after": self.reading.start_after}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        assert start is not None
        with self._line.connection() as connection:
            after = self._next(connection, start["after"])
        if after == start["after"]:
            time.sleep(_IDLE_S)
        return {"after": after}

    def _next(self, connection: Any, after: str | None) -> str | None:
        if self._waiting is None:
            named = quoted(self.reading.grows_by or "")
            wanted = (
                f"SELECT {named} AS v FROM {table_named(self.reading.table).sql} {_where(self.reading, after, None)} "
                f"ORDER BY v LIMIT {self.reading.max_rows}"
            )
            found = connection.execute(f"SELECT max(v)::text FROM ({wanted}) w").fetchone()
            if found[0] is None:
                return after
            self._waiting = (found[0], _running(connection))
        value, ran = self._waiting
        ran &= _running(connection)
        if ran:
            return after
        self._waiting = None
        return value

    def stop(self) -> None:
        self._line.close()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Task]:
        return [Task(start["after"], end["after"])]

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        return read_rows(self.reading, partition)


def _running(connection: Any) -> set[str]:
    """Transactions of this database but our own; each has a lock on itself, also before it has written."""
    found = connection.execute(
        "SELECT virtualxid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE locktype = 'virtualxid' "
        "AND mode = 'ExclusiveLock' AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    return {name for (name,) in found}


def _columns(reading: Reading) -> list[Column]:
    table = table_named(reading.table)
    with connect(reading.dsn) as connection:
        found = columns_of(connection, table)
        if not found:
            raise OttlaError(not_there(connection, [table]) or f"{table} has no columns")
        return found


def _where(reading: Reading, after: str | None, up_to: str | None) -> str:
    if reading.grows_by is None:
        return ""
    named = quoted(reading.grows_by)
    conditions = [f"{named} IS NOT NULL"]
    if after is not None:
        conditions.append(f"{named} > {literal(after)}")
    if up_to is not None:
        conditions.append(f"{named} <= {literal(up_to)}")
    return f"WHERE {' AND '.join(conditions)}"


def read_rows(reading: Reading, task: Task) -> Iterator[pa.RecordBatch]:
    import psycopg
    import pyarrow as pa
    import pyarrow.csv

    columns = _columns(reading)
    table = table_named(reading.table)
    is_range = task.after is not None or task.up_to is not None
    where = _where(reading, task.after, task.up_to) if is_range else ""
    named = ", ".join(quoted(column.name) for column in columns)
    kinds = {column.name: _arrow_type(column) for column in columns}
    options = pyarrow.csv.ConvertOptions(
        column_types={name: pa.string() if pa.types.is_binary(kind) else kind for name, kind in kinds.items()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["t"],
        false_values=["f"],
    )
    try:
        with connect(reading.dsn) as connection, connection.cursor() as cursor:
            query = f"COPY (SELECT {named} FROM {table.sql} {where}) TO STDOUT (FORMAT csv)"
            with cursor.copy(query) as copy:
                for text in _lines(copy):
                    read = pyarrow.csv.read_csv(
                        pa.BufferReader(text),
                        read_options=pyarrow.csv.ReadOptions(column_names=list(kinds)),
                        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
                        convert_options=options,
                    )
                    yield from (_with_bytes(batch, kinds) for batch in read.to_batches())
    except psycopg.Error as error:
        raise OttlaError(f"{table} cannot be read: {first_line(error)}") from error


_TEXT_BYTES: Final = 4 << 20


def _lines(copy: Any) -> Iterator[bytes]:
    """Whole rows: PostgreSQL sends one a message."""
    waiting: list[bytes] = []
    size = 0
    for data in copy:
        waiting.append(bytes(data))
        size += len(data)
        if size >= _TEXT_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _arrow_type(column: Column) -> Any:
    import pyarrow as pa

    kinds = {
        "BOOLEAN": pa.bool_(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(), "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(), "BINARY": pa.binary(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us", "UTC"),
        "TIMESTAMP_NTZ": pa.timestamp("us"), "STRING": pa.string(),
    }  # fmt: skip
    name = column.spark_type
    if name.startswith("DECIMAL"):
        precision, scale = name.removeprefix("DECIMAL(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return kinds[name]


def _with_bytes(batch: pa.RecordBatch, kinds: Mapping[str, Any]) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = []
    for name, kind in kinds.items():
        column = batch.column(name)
        if pa.types.is_binary(kind):
            texts = column.to_pylist()
            column = pa.array([None if text is None else bytes.fromhex(text[2:]) for text in texts], kind)
        arrays.append(column)
    return pa.record_batch(arrays, names=list(kinds))
