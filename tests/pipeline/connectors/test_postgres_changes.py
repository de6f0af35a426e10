from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import problems_of, source
from tests.spark.topics import forget_last_commit
from tests.waiting import until

from ottla.pipeline.connectors.postgres_source import PostgresChangesSource
from ottla.testing.postgres import Postgres

_numbers = count()


def _ask(postgres: Postgres, *queries: str) -> list[Any]:
    """In one transaction."""
    import psycopg

    with psycopg.connect(postgres.dsn) as connection:
        for query in queries:
            cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def orders(postgres: Postgres) -> str:
    name = f"orders_{next(_numbers)}"
    _ask(postgres, f"CREATE TABLE {name} (id int PRIMARY KEY, name text, n numeric, at timestamptz, ok boolean)")
    return name


Run = Callable[[], list[Any]]


@pytest.fixture
def run(spark: Any, postgres: Postgres, orders: str, tmp_path: Path) -> Run:
    """Reads changes until there are no more, as a sink that does not write a batch twice gets them."""
    made = source(
        PostgresChangesSource, tmp_path, postgres_changes=postgres.dsn, tables=(orders,), slot=f"slot_{orders}"
    )
    done: set[int] = set()

    def go() -> list[Any]:
        found: list[Any] = []

        def take(rows: Any, batch: int) -> None:
            if batch not in done:
                found.extend(rows.orderBy("lsn", "sequence").collect())
                done.add(batch)

        frame = made.stream(spark)
        query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return found

    return go


def _short(rows: list[Any]) -> list[tuple[str, Any, Any]]:
    return [(row.op, json.loads(row.key), row.value and json.loads(row.value)) for row in rows]


def test_first_what_is_there_then_changes_then_deletes_as_tombstones(postgres: Postgres, orders: str, run: Run) -> None:
    _ask(
        postgres,
        f"INSERT INTO {orders} VALUES (1, 'a', 1.50, '2026-01-02 03:04:05+00', true), (2, 'b', NULL, NULL, false)",
    )
    assert _short(run()) == [
        ("r", {"id": 1}, {"id": 1, "name": "a", "n": 1.5, "at": "2026-01-02T03:04:05Z", "ok": True}),
        ("r", {"id": 2}, {"id": 2, "name": "b", "n": None, "at": None, "ok": False}),
    ]
    _ask(
        postgres,
        f"INSERT INTO {orders} (id, name) VALUES (3, 'c')",
        f"UPDATE {orders} SET name = 'B' WHERE id = 2",
        f"DELETE FROM {orders} WHERE id = 1",
    )
    _ask(postgres, f"UPDATE {orders} SET id = 4 WHERE id = 3")
    found = run()
    assert [(op, key["id"], value and value["name"]) for op, key, value in _short(found)] == [
        ("c", 3, "c"), ("u", 2, "B"), ("d", 1, None), ("d", 3, None), ("u", 4, "c"),
    ]  # fmt: skip
    assert len({row.xid for row in found}) == 2 and all(row.table == orders for row in found)
    assert run() == []


def test_a_repeated_batch_reads_the_same_and_the_slot_moves_only_after_a_batch(
    postgres: Postgres, orders: str, run: Run, tmp_path: Path
) -> None:
    run()
    _ask(postgres, f"INSERT INTO {orders} (id) VALUES (1)")
    assert [row.op for row in run()] == ["c"]
    forget_last_commit(tmp_path / "checkpoint")
    _ask(postgres, f"INSERT INTO {orders} (id) VALUES (2)")
    assert [key["id"] for _, key, _ in _short(run())] == [2]


def test_transactions_that_run_while_the_snapshot_is_taken_come_once(postgres: Postgres, orders: str, run: Run) -> None:
    """One is committed between slot and snapshot, one is open meanwhile and committed later."""
    import psycopg

    from ottla.pipeline.connectors import postgres_changes

    with psycopg.connect(postgres.dsn) as late:
        made = postgres_changes.prepare

        def prepared(*arguments: Any) -> int:
            lsn = made(*arguments)
            _ask(postgres, f"INSERT INTO {orders} (id) VALUES (1)")
            late.execute(f"INSERT INTO {orders} (id) VALUES (2)")
            return lsn

        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            capture = postgres_changes.Capture(postgres.dsn, (orders,), f"slot_{orders}", f"slot_{orders}", True, 1000)
            prepared(connection, capture)
        first = run()
        late.commit()
        assert [(op, key["id"]) for op, key, _ in _short(first)] == [("r", 1)]
    assert [(op, key["id"]) for op, key, _ in _short(run())] == [("c", 2)]


def test_a_column_that_is_added_in_mid_stream(postgres: Postgres, orders: str, run: Run) -> None:
    run()
    _ask(postgres, f"INSERT INTO {orders} (id) VALUES (1)")
    _ask(postgres, f"ALTER TABLE {orders} ADD COLUMN fresh jsonb")
    _ask(postgres, f"INSERT INTO {orders} (id, fresh) VALUES (2, '[1]')")
    assert [value.get("fresh", "none") for _, _, value in _short(run())] == ["none", [1]]


def test_a_killed_server_loses_and_doubles_nothing(postgres: Postgres, orders: str, run: Run) -> None:
    run()
    ids = []
    for number in range(6):
        _ask(postgres, f"INSERT INTO {orders} (id) VALUES ({number})")
        if number % 2:
            postgres.kill()
            postgres.start()
        ids += [key["id"] for _, key, _ in _short(run())]
    assert ids == list(range(6))


def test_a_slot_that_is_gone_is_told(postgres: Postgres, orders: str, run: Run) -> None:
    run()
    _ask(postgres, f"SELECT pg_drop_replication_slot('slot_{orders}')")
    with pytest.raises(Exception, match=r"the replication slot .* is gone.*replay"):
        run()


def test_whole_transactions_though_a_batch_is_limited(
    spark: Any, postgres: Postgres, orders: str, tmp_path: Path
) -> None:
    made = source(
        PostgresChangesSource, tmp_path, postgres_changes=postgres.dsn, tables=(orders,), slot=f"slot_{orders}",
        max_changes=5, snapshot=False,
    )  # fmt: skip
    sizes: list[int] = []
    frame = made.stream(spark)
    checkpoint = str(tmp_path / "checkpoint")
    start = frame.writeStream.foreachBatch(lambda rows, _: sizes.append(rows.count())).option(
        "checkpointLocation", checkpoint
    )
    query = start.start()
    try:
        query.processAllAvailable()
        for number in range(4):
            _ask(postgres, *(f"INSERT INTO {orders} (id) VALUES ({number * 4 + n})" for n in range(4)))
        until(lambda: sum(sizes) >= 16, lambda: sizes)
    finally:
        query.stop()
    assert sum(sizes) == 16 and all(size % 4 == 0 for size in sizes)


def test_what_is_wrong_is_told_before_anything_runs(postgres: Postgres, orders: str, tmp_path: Path) -> None:
    made = source(PostgresChangesSource, tmp_path, postgres_changes=postgres.dsn, tables=(orders + "x",))
    (problem,) = made.check_there()
    assert f"there is no table {orders}x" in problem.message and "did you mean" in problem.message
    (problem,) = problems_of(PostgresChangesSource, "postgres-changes: x\ntables: [a]\nslot: My-Slot")
    assert "small letters" in problem.message
