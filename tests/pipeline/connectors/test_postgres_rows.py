from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.pipeline.connectors.making import problems_of, source

from ottla.pipeline.connectors.postgres_source import PostgresSource
from ottla.testing.postgres import Postgres


def _ask(postgres: Postgres, query: str) -> None:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(query)


def _run(frame: Any, folder: Path) -> list[Any]:
    found: list[Any] = []

    def take(rows: Any, _: int) -> None:
        found.extend(tuple(row) for row in rows.collect())

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return sorted(found, key=repr)


def test_all_kinds_of_values_of_a_table(spark: Any, postgres: Postgres, tmp_path: Path) -> None:
    _ask(
        postgres,
        "CREATE TABLE kinds (id bigint, yes boolean, s smallint, f real, d double precision, n numeric(10, 2), "
        "b bytea, day date, at timestamptz, local timestamp, t text, j jsonb, u uuid, list int[])",
    )
    _ask(
        postgres,
        "INSERT INTO kinds VALUES (1, true, 2, 1.5, 2.5, 12.34, '\\x01ff', '2026-01-02', '2026-01-02 03:04:05.678+00', "
        "'2026-01-02 03:04:05', E'a,\"b\"\\nc', '{\"k\": 1}', '00000000-0000-0000-0000-000000000001', '{1,2}'), "
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL)",
    )
    frame = source(PostgresSource, tmp_path, postgres=postgres.dsn, table="kinds").table(spark)
    first, second = sorted(tuple(row) for row in frame.collect())
    assert first[:5] == (1, True, 2, 1.5, 2.5) and str(first[5]) == "12.34" and bytes(first[6]) == b"\x01\xff"
    assert str(first[7]) == "2026-01-02" and first[9].isoformat() == "2026-01-02T03:04:05"
    assert first[10:] == ('a,"b"\nc', '{"k": 1}', "00000000-0000-0000-0000-000000000001", "{1,2}")
    assert second == (2, None, None, None, None, None, None, None, None, None, "", None, None, None)
    assert frame.selectExpr("CAST(at AS STRING)").first()[0] == "2026-01-02 03:04:05.678"


def test_a_stream_has_what_is_new_also_if_it_is_committed_late(spark: Any, postgres: Postgres, tmp_path: Path) -> None:
    _ask(postgres, "CREATE TABLE growing (id serial, name text)")
    made = source(PostgresSource, tmp_path, postgres=postgres.dsn, table="growing", grows_by="id")
    frame = made.stream(spark)
    _ask(postgres, "INSERT INTO growing (name) VALUES ('a'), ('b')")
    assert _run(frame, tmp_path) == [(1, "a"), (2, "b")]
    with psycopg.connect(postgres.dsn) as late:
        late.execute("INSERT INTO growing (name) VALUES ('late')")
        _ask(postgres, "INSERT INTO growing (name) VALUES ('early')")
        assert _run(frame, tmp_path) == []
    assert _run(frame, tmp_path) == [(3, "late"), (4, "early")]
    assert _run(frame, tmp_path) == []


def test_a_stream_begins_where_it_is_told_and_in_small_batches(spark: Any, postgres: Postgres, tmp_path: Path) -> None:
    _ask(postgres, "CREATE TABLE steps (id int)")
    _ask(postgres, "INSERT INTO steps SELECT generate_series(1, 10)")
    made = source(
        PostgresSource, tmp_path, postgres=postgres.dsn, table="steps", grows_by="id", start_after="4", max_rows=4
    )
    assert _run(made.stream(spark), tmp_path) == sorted([(n,) for n in range(5, 11)], key=repr)


def test_what_is_wrong_is_told(postgres: Postgres, tmp_path: Path) -> None:
    _ask(postgres, "CREATE TABLE wrong (id int)")
    (problem,) = source(PostgresSource, tmp_path, postgres=postgres.dsn, table="wrong", grows_by="idd").check_there()
    assert problem.message == "wrong has no column idd; did you mean id?"
    (problem,) = source(PostgresSource, tmp_path, postgres=postgres.dsn, table="wrongg").check_there()
    assert "did you mean wrong?" in problem.message
    (problem,) = problems_of(PostgresSource, "postgres: x\ntable: t\nstart-after: 5")
    assert "grows-by" in problem.message


def test_a_stream_without_a_column_that_grows(spark: Any, postgres: Postgres, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="grows-by must name a column"):
        source(PostgresSource, tmp_path, postgres=postgres.dsn, table="t").stream(spark)
