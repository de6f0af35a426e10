from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, problems_of, sink

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.postgres_sink import PostgresSink
from ottla.pipeline.options import Span
from ottla.testing.postgres import Postgres


def _ask(postgres: Postgres, query: str) -> list[Any]:
    import psycopg

    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchall() if cursor.description else []


@pytest.fixture(autouse=True)
def _empty(postgres: Postgres) -> None:
    _ask(postgres, "DROP SCHEMA public CASCADE")
    _ask(postgres, "CREATE SCHEMA public")


def _sink(postgres: Postgres, **options: Any) -> Any:
    return sink(PostgresSink, Path(), **{"postgres": postgres.dsn, "table": "orders", "key": ("id",)} | options)


def test_rows_are_changed_and_deleted_and_a_repeated_batch_is_not_written(spark: Any, postgres: Postgres) -> None:
    out = _sink(postgres)
    out.write(spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id INT, name STRING"), batch(0))
    changed = spark.createDataFrame([(1, "A"), (2, None), (4, "d"), (9, None)], "id INT, name STRING")
    out.write(changed, batch(1))
    _ask(postgres, "UPDATE orders SET name = 'mine' WHERE id = 1")
    out.write(changed, batch(1))
    assert _ask(postgres, "SELECT * FROM orders ORDER BY id") == [(1, "mine"), (3, "c"), (4, "d")]


def test_append_is_exactly_once(spark: Any, postgres: Postgres) -> None:
    out = _sink(postgres, write="append", key=())
    for number in (0, 1, 1, 0, 2):
        out.write(spark.createDataFrame([(number,)], "id INT"), batch(number))
    assert _ask(postgres, "SELECT id FROM orders ORDER BY id") == [(0,), (1,), (2,)]


def test_the_primary_key_is_taken_and_other_columns_are_left_alone(spark: Any, postgres: Postgres) -> None:
    _ask(postgres, "CREATE TABLE orders (a int, b text, n int, note text DEFAULT 'none', PRIMARY KEY (a, b))")
    out = _sink(postgres, key=())
    out.write(spark.createDataFrame([(1, "x", 1)], "a INT, b STRING, n INT"), batch(0))
    _ask(postgres, "UPDATE orders SET note = 'kept'")
    out.write(spark.createDataFrame([(1, "x", 2), (1, "y", 3)], "a INT, b STRING, n INT"), batch(1))
    assert _ask(postgres, "SELECT * FROM orders ORDER BY b") == [(1, "x", 2, "kept"), (1, "y", 3, "none")]


def test_all_kinds_of_values(spark: Any, postgres: Postgres) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, true AS yes, 3L AS long, 2.5D AS double, 12.34BD AS decimal, X'01FF' AS bytes, "
        "DATE '2026-03-04' AS day, TIMESTAMP '2026-03-04 05:06:07.123456' AS at, named_struct('a', 1) AS struct, "
        "array('x', 'y,\"z') AS list, '' AS empty, CAST(NULL AS STRING) AS nothing, 'a,\"b\"\\n\\\\c' AS text"
    )
    out = _sink(postgres)
    out.write(rows, batch(0))
    (found,) = _ask(postgres, "SELECT * FROM orders")
    assert found[1:4] == (True, 3, 2.5) and str(found[4]) == "12.34" and found[5] == b"\x01\xff"
    assert str(found[6]) == "2026-03-04" and found[7].timestamp() == 1772600767.123456
    assert found[8:] == ({"a": 1}, ["x", 'y,"z'], "", None, 'a,"b"\n\\c')


def test_lists_go_into_columns_that_are_arrays(spark: Any, postgres: Postgres) -> None:
    _ask(postgres, "CREATE TABLE orders (id int PRIMARY KEY, list int[], doc json)")
    out = _sink(postgres)
    out.write(spark.sql("SELECT 1 AS id, array(1, NULL, 3) AS list, map('k', 1) AS doc"), batch(0))
    assert _ask(postgres, "SELECT * FROM orders") == [(1, [1, None, 3], {"k": 1})]


def test_columns_that_are_new(spark: Any, postgres: Postgres) -> None:
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    _sink(postgres).write(rows.select("id"), batch(0))
    with pytest.raises(OttlaError, match=r"orders has no column name.*new-columns: add"):
        _sink(postgres).write(rows, batch(1))
    _sink(postgres, new_columns="add").write(rows, batch(1))
    assert _ask(postgres, "SELECT * FROM orders") == [(1, "a")]


def test_what_the_table_refuses_is_told_and_nothing_is_written(spark: Any, postgres: Postgres) -> None:
    _ask(postgres, "CREATE TABLE orders (id int PRIMARY KEY, n int CHECK (n > 0))")
    out = _sink(postgres)
    with pytest.raises(OttlaError, match=r"table orders of PostgreSQL .* refuses the rows of batch 0.*orders_n_check"):
        out.write(spark.createDataFrame([(1, 1), (2, -1)], "id INT, n INT"), batch(0))
    assert _ask(postgres, "SELECT * FROM orders") == []
    out.write(spark.createDataFrame([(1, 1)], "id INT, n INT"), batch(0))
    assert _ask(postgres, "SELECT * FROM orders") == [(1, 1)]


def test_of_two_drivers_that_write_the_same_batch_one_wins(spark: Any, postgres: Postgres) -> None:
    rows = spark.range(1000).selectExpr("id")
    out = _sink(postgres, write="append", key=())
    out.write(spark.range(0), batch(0))
    threads = [threading.Thread(target=out.write, args=(rows, batch(1))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert _ask(postgres, "SELECT count(*) FROM orders") == [(1000,)]


def test_a_server_that_comes_back_is_waited_for(spark: Any, postgres: Postgres) -> None:
    out = _sink(postgres)
    out.write(spark.createDataFrame([(1, "a")], "id INT, name STRING"), batch(0))
    postgres.kill()
    writing = threading.Thread(
        target=out.write, args=(spark.createDataFrame([(2, "b")], "id INT, name STRING"), batch(1))
    )
    writing.start()
    time.sleep(1)
    postgres.start()
    writing.join(60)
    assert _ask(postgres, "SELECT * FROM orders ORDER BY id") == [(1, "a"), (2, "b")]


def test_a_server_that_is_away_is_an_error_without_the_password(spark: Any) -> None:
    out = sink(
        PostgresSink, Path(), postgres="postgresql://me:secret@127.0.0.1:9/x", table="t", key=("id",), retry_for=Span(0)
    )
    with pytest.raises(OttlaError, match=r"me:\*\*\*@127.0.0.1:9/x") as raised:
        out.write(spark.range(1), batch(0))
    assert "secret" not in str(raised.value)


def test_what_is_wrong_is_told_before_anything_runs(spark: Any, postgres: Postgres) -> None:
    _ask(postgres, "CREATE TABLE orders (id int)")
    (problem,) = _sink(postgres, key=()).check_there()
    assert problem.message == "the table orders has no primary key: key must name the columns"
    (problem,) = _sink(postgres, key=(), table="nothing").check_there()
    assert "without a key it cannot be made" in problem.message
    assert list(_sink(postgres).check_there()) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("postgres: x\ntabel: t", "did you mean table?"),
        ("postgres: x\ntable: t\nwrite: append\nkey: id", "key is for write: upsert"),
        ("postgres: x\ntable: t\nretry-for: soon", "a time like"),
    ],
)
def test_options_that_are_wrong(text: str, told: str) -> None:
    assert any(told in problem.message for problem in problems_of(PostgresSink, text))
