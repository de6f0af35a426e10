"""PostgreSQL as a source: a table read as it grows, or as it is; or its changes (postgres_changes.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.pipeline.connectors.port import DataFrame, Place, Shape, Source, SparkSession
from ottla.pipeline.connectors.postgres import CHANGE_COLUMNS, POSTGRES_DOC, columns_of, connect, not_there, table_named
from ottla.pipeline.options import option
from ottla.pipeline.problems import Problem


@dataclass(frozen=True, slots=True)
class PostgresSourceOptions:
    postgres: str = option(POSTGRES_DOC, example="postgresql://shop@db/shop")
    table: str = option("The table, with its schema unless that is public.")
    grows_by: str | None = option(
        "A column whose values only grow, as a number from a sequence or the time of a row's last change does. A "
        "stream reads rows with a greater value than it has read. Updates that leave it alone are not seen, nor are "
        "deletes.",
        None,
        example="updated_at",
    )
    start_after: str | None = option("The value of grows-by behind which a stream begins; else at the first row.", None)
    max_rows: int = option("How many rows a micro-batch has, about.", 1_000_000)


class PostgresSource(Source):
    options: ClassVar[type] = PostgresSourceOptions
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.STREAM, Shape.TABLE)
    doc: ClassVar[str] = (
        "A table of PostgreSQL: as a stream of the rows that are new, by a column that grows; or as it is now. For "
        "updates and deletes take postgres-changes."
    )
    given: PostgresSourceOptions

    @property
    def what(self) -> str:
        grows = "" if self.given.grows_by is None else f" by {self.given.grows_by}"
        return f"{super().what} {self.given.table}{grows}"

    def check(self) -> Iterable[Problem]:
        if self.given.start_after is not None and self.given.grows_by is None:
            yield Problem(("start-after",), "start-after is a value of the column grows-by, which is not said")
        if self.given.max_rows < 1:
            yield Problem(("max-rows",), "max-rows must be 1 or more")

    def check_there(self) -> Iterable[Problem]:
        table = table_named(self.given.table)
        try:
            with connect(self.given.postgres) as connection:
                if (told := not_there(connection, [table])) is not None:
                    yield Problem(("table",), told)
                    return
                names = [column.name for column in columns_of(connection, table)]
        except OttlaError as error:
            yield Problem(("postgres",), str(error))
            return
        if self.given.grows_by is not None and self.given.grows_by not in names:
            near = did_you_mean(self.given.grows_by, names)
            yield Problem(("grows-by",), f"{table} has no column {self.given.grows_by}{near}")

    def stream(self, spark: SparkSession) -> DataFrame:
        if self.given.grows_by is None:
            raise OttlaError(
                f"{self.place.entry} is read as a stream, for which grows-by must name a column whose values only "
                "grow; postgres-changes captures all changes"
            )
        from ottla.pipeline.connectors.postgres_rows import FORMAT, PostgresRows

        spark.dataSource.register(PostgresRows)
        return spark.readStream.format(FORMAT).options(**self._options()).load()

    def table(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.late_reading import read_late
        from ottla.pipeline.connectors.postgres_rows import PostgresRows

        return read_late(spark, PostgresRows, self._options())

    def _options(self) -> dict[str, str]:
        from ottla.pipeline.connectors.postgres_rows import Reading

        given = self.given
        reading = Reading(given.postgres, given.table, given.grows_by, given.start_after, given.max_rows)
        return reading.to_options()


@dataclass(frozen=True, slots=True)
class PostgresChangesOptions:
    postgres_changes: str = option(POSTGRES_DOC, example="postgresql://shop@db/shop")
    tables: tuple[str, ...] = option("The tables, with their schemas unless these are public.")
    snapshot: bool = option("Whether the rows that are there already come first, with op r.", True)
    slot: str | None = option(
        "The replication slot in PostgreSQL, which keeps changes until they were read. One is made, named after the "
        "pipeline, unless it is there.",
        None,
    )
    publication: str | None = option(
        "The publication in PostgreSQL; made, with the slot's name, unless it is there.", None
    )
    max_changes: int = option("How many changes a micro-batch has, about: transactions stay whole.", 100_000)


class PostgresChangesSource(Source):
    options: ClassVar[type] = PostgresChangesOptions
    shapes: ClassVar[tuple[Shape, ...]] = (Shape.STREAM,)
    doc: ClassVar[str] = (
        "Changes of tables of PostgreSQL, by logical replication: first what is there, then each insert, update and "
        "delete, in the order of commits. key and value are JSON, and value is null for a delete: written to a topic, "
        "that is a tombstone."
    )
    given: PostgresChangesOptions

    @property
    def what(self) -> str:
        return f"{super().what} {', '.join(self.given.tables)}"

    def check(self) -> Iterable[Problem]:
        if not self.given.tables:
            yield Problem(("tables",), "tables names none")
        if self.given.slot is not None and not re.fullmatch(r"[a-z0-9_]{1,63}", self.given.slot):
            yield Problem(("slot",), "a slot's name has small letters, digits and underscores, up to 63")
        if self.given.max_changes < 1:
            yield Problem(("max-changes",), "max-changes must be 1 or more")

    def check_there(self) -> Iterable[Problem]:
        try:
            with connect(self.given.postgres_changes) as connection:
                (level,) = connection.execute("SHOW wal_level").fetchone() or ("?",)
                if level != "logical":
                    yield Problem(
                        ("postgres-changes",),
                        f"PostgreSQL has wal_level={level}: ALTER SYSTEM SET wal_level = 'logical', and restart it",
                    )
                told = not_there(connection, [table_named(text) for text in self.given.tables])
                if told is not None:
                    yield Problem(("tables",), told)
        except OttlaError as error:
            yield Problem(("postgres-changes",), str(error))

    def columns(self) -> Mapping[str, str]:
        return CHANGE_COLUMNS

    def stream(self, spark: SparkSession) -> DataFrame:
        from ottla.pipeline.connectors.postgres_changes import FORMAT, Capture, PostgresChanges

        spark.dataSource.register(PostgresChanges)
        slot = self.given.slot or slot_name(self.place)
        capture = Capture(
            dsn=self.given.postgres_changes,
            tables=self.given.tables,
            slot=slot,
            publication=self.given.publication or slot,
            snapshot=self.given.snapshot,
            max_changes=self.given.max_changes,
        )
        return spark.readStream.format(FORMAT).options(**capture.to_options()).load()


def slot_name(place: Place) -> str:
    return re.sub(r"[^a-z0-9_]", "_", f"ottla_{place.pipeline}_{place.entry}".lower())[:63]
