"""Change data capture from PostgreSQL by logical replication, as a Spark stream.

A slot in PostgreSQL keeps the changes that the stream has not had. They are looked at by SQL
(`pg_logical_slot_peek_binary_changes`), which leaves them where they are, so that a micro-batch that is repeated reads
the same again; the slot is moved on when Spark asks for what comes after a micro-batch, which it does after that one
was committed. An offset is the place behind a transaction's commit in the write-ahead log: micro-batches have whole
transactions, in the order of commits.

The first micro-batch is a snapshot of the tables. It is read under one exported snapshot; transactions that it has seen
are left out of the changes that follow. If the driver dies before that very micro-batch is committed, it is read
anew, under a later snapshot, and changes between the two come a second time.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.passwords import without_password
from ottla.pipeline.connectors.pgoutput import Change, Column, Decoder, Op, Seen, json_text
from ottla.pipeline.connectors.postgres import (
    CHANGE_COLUMNS,
    Line,
    Table,
    columns_of,
    connect,
    literal,
    not_there,
    primary_key,
    quoted,
    table_named,
)
from ottla.pipeline.connectors.storage import first_line

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

_log = logging.getLogger("ottla.pipeline")
FORMAT: Final = "ottla-postgres-changes"
_ROWS: Final = 10_000
_SLOT_WAIT_S: Final = 30.0
_IDLE_S: Final = 0.05  # Spark asks again at once
_PEEK: Final = "pg_logical_slot_peek_binary_changes(%s, {upto}, {count}, 'proto_version', '1', 'publication_names', %s)"


@dataclass(frozen=True, slots=True)
class Capture:
    """What is captured; sent to tasks as JSON."""

    dsn: str
    tables: tuple[str, ...]
    slot: str
    publication: str
    snapshot: bool
    max_changes: int

    @property
    def named(self) -> tuple[Table, ...]:
        return tuple(table_named(text) for text in self.tables)

    def to_options(self) -> dict[str, str]:
        return {"capture": json.dumps(asdict(self))}

    @staticmethod
    def from_options(options: Mapping[str, str]) -> Capture:
        read = json.loads(options["capture"])
        return Capture(**(read | {"tables": tuple(read["tables"])}))


class PostgresChanges(DataSource):
    """Spark makes it several times, in several processes."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in CHANGE_COLUMNS.items())

    def streamReader(self, schema: Any) -> ChangesReader:
        return ChangesReader(Capture.from_options(self.options))


class Task(InputPartition):
    """A table of the snapshot, or the changes between two places of the log."""

    def __init__(
        self, start: int, end: int, *, seen: tuple[str, int] | None, table: str | None = None, snapshot: str = ""
    ) -> None:
        super().__init__(None)
        self.start = start
        self.end = end
        self.seen = seen
        self.table = table
        self.snapshot = snapshot


class ChangesReader(DataSourceStreamReader):
    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self._snapshot: Snapshot | None = None
        self._line = Line(capture.dsn)
        self._looked: tuple[int, int] | None = None
        """Where the stream and the log were when there was nothing new."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to tasks without what it holds open."""
        return (ChangesReader, (self.capture,))

    def initialOffset(self) -> dict[str, Any]:
        """Of the stream's first start only: makes what PostgreSQL needs for it."""
        with connect(self.capture.dsn) as connection:
            lsn = prepare(connection, self.capture)
        return {"lsn": lsn, "seen": None, "snapshot": self.capture.snapshot}

    def latestOffset(self, start: Mapping[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        assert start is not None
        if start["snapshot"]:
            self._snapshot = self._snapshot or Snapshot(self.capture.dsn)
            return {"lsn": start["lsn"], "seen": self._snapshot.seen, "snapshot": False}
        self._forget_snapshot()
        with self._line.connection() as connection:
            looked = (start["lsn"], int(_one(connection, "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn")))
            if looked == self._looked:
                time.sleep(_IDLE_S)
                return dict(start)
            check_slot(connection, self.capture, start["lsn"])
            advance(connection, self.capture, start["lsn"])
            found = newest(connection, self.capture)
        if found is None or found <= start["lsn"]:
            self._looked = looked
            return dict(start)
        seen = start["seen"] if start["seen"] is not None and start["lsn"] < start["seen"][1] else None
        return {"lsn": found, "seen": seen, "snapshot": False}

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Task]:
        if not start["snapshot"]:
            return [Task(start["lsn"], end["lsn"], seen=start["seen"])]
        if self._snapshot is None:  # begun by a driver that is no more
            self._snapshot = Snapshot(self.capture.dsn)
            _log.warning(
                "the snapshot of %s is read anew; changes that were made since the first one come again behind it",
                ", ".join(self.capture.tables),
            )
        return [Task(0, 0, seen=None, table=table, snapshot=self._snapshot.name) for table in self.capture.tables]

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        with connect(self.capture.dsn) as connection:
            if partition.table is not None:
                yield from in_arrow(read_table(connection, table_named(partition.table), partition.snapshot))
            else:
                seen = None if partition.seen is None else Seen(*partition.seen)
                keys = {(one.schema, one.name): primary_key(connection, one) for one in self.capture.named}
                decoder = Decoder(partition.start, partition.end, seen, keys)
                yield from in_arrow(decoder.changes(messages(connection, self.capture, partition.end)))

    def commit(self, end: Mapping[str, Any]) -> None:
        """latestOffset knows as much."""

    def stop(self) -> None:
        self._forget_snapshot()
        self._line.close()

    def _forget_snapshot(self) -> None:
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None


class Snapshot:
    """Held open, so that tasks can read the tables as they were at one moment."""

    def __init__(self, dsn: str) -> None:
        self._connection = connect(dsn, autocommit=False)
        self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = self._connection.execute("SELECT pg_current_snapshot()::text, pg_export_snapshot()").fetchone()
        assert found is not None
        seen, self.name = (str(one) for one in found)
        self.seen = (seen, int(_one(self._connection, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")))

    def close(self) -> None:
        self._connection.close()


def prepare(connection: psycopg.Connection[Any], capture: Capture) -> int:
    """Publication and slot, made where they are missing; where the stream begins."""
    import psycopg

    try:
        level = _one(connection, "SELECT current_setting('wal_level')")
        if level != "logical":
            raise OttlaError(
                f"PostgreSQL ({without_password(capture.dsn)}) has wal_level={level}: ALTER SYSTEM SET wal_level = "
                "'logical', and restart it"
            )
        if (lacking := not_there(connection, capture.named)) is not None:
            raise OttlaError(lacking)
        publish(connection, capture)
        if _slot(connection, capture.slot) is None:
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (capture.slot,))
        found = _slot(connection, capture.slot)
        assert found is not None
        return found
    except psycopg.Error as error:
        raise OttlaError(f"changes of {', '.join(capture.tables)} cannot be captured: {first_line(error)}") from error


def publish(connection: psycopg.Connection[Any], capture: Capture) -> None:
    wanted = {table.sql for table in capture.named}
    if not _one(connection, "SELECT count(*) FROM pg_publication WHERE pubname = %s", capture.publication):
        tables = ", ".join(sorted(wanted))
        connection.execute(f"CREATE PUBLICATION {quoted(capture.publication)} FOR TABLE {tables}")
        return
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (capture.publication,)
    )
    if lacking := sorted(wanted - {Table(*row).sql for row in rows}):
        connection.execute(f"ALTER PUBLICATION {quoted(capture.publication)} ADD TABLE {', '.join(lacking)}")


def check_slot(connection: psycopg.Connection[Any], capture: Capture, start: int) -> None:
    confirmed = _slot(connection, capture.slot)
    if confirmed is None:
        raise OttlaError(
            f"the replication slot {capture.slot} is gone, and with it changes that were not read. Start anew with "
            "a snapshot: ottla pipeline replay"
        )
    if confirmed > start:
        raise OttlaError(
            f"somebody else has read from the replication slot {capture.slot}, up to {lsn_text(confirmed)}, and this "
            f"stream only up to {lsn_text(start)}. Give each stream a slot of its own"
        )


def advance(connection: psycopg.Connection[Any], capture: Capture, lsn: int) -> None:
    if (_slot(connection, capture.slot) or 0) < lsn:
        _with_slot(connection, "SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (capture.slot, lsn_text(lsn)))


def newest(connection: psycopg.Connection[Any], capture: Capture) -> int | None:
    """Behind the last transaction that is to be read now; the changes themselves stay in PostgreSQL."""
    peek = _PEEK.format(upto="NULL", count=int(capture.max_changes))
    rows = _with_slot(
        connection,
        # of a Commit message, the end of the transaction
        f"SELECT max(encode(substr(data, 11, 8), 'hex') COLLATE \"C\") FROM {peek} WHERE get_byte(data, 0) = 67",
        (capture.slot, capture.publication),
    )
    return None if rows[0][0] is None else int(rows[0][0], 16)


def messages(connection: psycopg.Connection[Any], capture: Capture, end: int) -> Iterator[bytes]:
    peek = _PEEK.format(upto=f"'{lsn_text(end)}'::pg_lsn", count="NULL")
    arguments = (capture.slot, capture.publication)
    for (data,) in _with_slot(connection, f"SELECT data FROM {peek}", arguments):
        yield data


def read_table(connection: psycopg.Connection[Any], table: Table, snapshot: str) -> Iterator[Change]:
    import psycopg

    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            connection.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}")
        except psycopg.Error as error:
            raise OttlaError(
                f"the snapshot of {table} is gone ({first_line(error)}); start the pipeline again"
            ) from error
        at = int(time.time() * 1_000_000)
        key = primary_key(connection, table)
        columns = [Column(one.name, one.type, one.name in key) for one in columns_of(connection, table)]
        named = ", ".join(f"{quoted(one.name)}::text" for one in columns)
        texts = [(json.dumps(one.name, ensure_ascii=False), one) for one in columns]
        with connection.cursor(name="ottla") as cursor:
            cursor.itersize = _ROWS
            cursor.execute(f"SELECT {named} FROM ONLY {table.sql}")
            for n, row in enumerate(cursor):
                parts = [
                    (one, f"{name}:{json_text(one.type, _as_sent(one, text))}")
                    for (name, one), text in zip(texts, row, strict=True)
                ]
                of_key = [part for one, part in parts if one.is_key]
                value = "{" + ",".join(part for _, part in parts) + "}"
                told = "{" + ",".join(of_key) + "}" if of_key else None
                yield Change(Op.READ, table.schema, table.name, told, value, (), 0, 0, n + 1, at)


def _as_sent(column: Column, text: str | None) -> bytes | None:
    """In the stream, true is t."""
    if text is None:
        return None
    return (text[0] if column.type == 16 else text).encode()


def in_arrow(changes: Iterator[Change]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    schema = pa.schema(
        {
            "key": pa.string(),
            "value": pa.string(),
            "op": pa.string(),
            "schema": pa.string(),
            "table": pa.string(),
            "unchanged": pa.list_(pa.string()),
            "lsn": pa.int64(),
            "xid": pa.int64(),
            "sequence": pa.int32(),
            "committed_at": pa.timestamp("us", "UTC"),
        }
    )
    rows: list[Change] = []

    def batch() -> pa.RecordBatch:
        columns = list(zip(*rows, strict=True))
        by_name = dict(zip(Change._fields, columns, strict=True))
        by_name["op"] = tuple(op.value for op in by_name["op"])
        arrays = [
            pa.array(by_name["committed_us" if name == "committed_at" else name], schema.field(name).type)
            for name in schema.names
        ]
        return pa.record_batch(arrays, schema=schema)

    for change in changes:
        rows.append(change)
        if len(rows) >= _ROWS:
            yield batch()
            rows = []
    if rows:
        yield batch()


def _slot(connection: psycopg.Connection[Any], slot: str) -> int | None:
    """Up to where a slot is confirmed; None if there is no such slot."""
    found = connection.execute(
        "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    return None if found is None else int(found[0])


def _with_slot(connection: psycopg.Connection[Any], query: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Only one at a time has a slot: a task of a driver that is no more may still have it for a while."""
    import psycopg

    until = time.monotonic() + _SLOT_WAIT_S
    while True:
        try:
            return list(connection.execute(query, arguments, binary=True))
        except psycopg.errors.ObjectInUse as error:
            if time.monotonic() > until:
                raise OttlaError(f"{first_line(error)}: does the pipeline run twice?") from error
            time.sleep(0.1)
        except psycopg.Error as error:
            raise OttlaError(f"changes cannot be read from PostgreSQL: {first_line(error)}") from error


def _one(connection: psycopg.Connection[Any], query: str, *arguments: Any) -> Any:
    found = connection.execute(query, arguments).fetchone()
    return None if found is None else found[0]


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
