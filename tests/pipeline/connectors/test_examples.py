"""The worked examples that read or write other systems run, and their own tests pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.pipeline.spark.pipelines import example, run_once
from tests.spark.topics import messages, new_topic, write

from ottla.pipeline.trying import run_test
from ottla.testing.node import RunningNode
from ottla.testing.postgres import Postgres


@pytest.mark.parametrize("name", ["clickstream", "capture"])
def test_its_own_tests_pass(
    name: str, spark: Any, node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", str(tmp_path))
    monkeypatch.setenv("SHOP", "postgresql://nobody@127.0.0.1:9/nothing")
    spec = example(name, node)
    assert spec.doubts == () and spec.tests
    for test in spec.tests:
        assert run_test(spec, test, spark, tmp_path / "trying").problems == (), test.name


def test_clicks_come_into_the_lake_and_what_is_none_is_put_aside(
    spark: Any, node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    monkeypatch.setenv("LAKE", str(tmp_path / "lake"))
    new_topic(node, 2, "clicks")
    click = {"id": "a", "user": "ada", "page": "/", "at": "2026-11-16T23:59:59Z"}
    write(node, "clicks", [json.dumps(click).encode(), b"{", json.dumps({**click, "user": None}).encode()])
    run_once(example("clickstream", node), spark, tmp_path)
    write(node, "clicks", [json.dumps({**click, "id": "b"}).encode()], 1)
    run_once(example("clickstream", node), spark, tmp_path)
    table = DeltaTable(str(tmp_path / "lake" / "clicks"))
    found = table.to_pyarrow_table().sort_by("id").to_pylist()
    assert [(row["id"], row["user"], row["day"].isoformat()) for row in found] == [
        ("a", "ada", "2026-11-16"),
        ("b", "ada", "2026-11-16"),
    ]
    assert table.metadata().partition_columns == ["day"]
    reasons = [dict(one.headers())["__ottla.errors.stage"] for one in messages(node, "clicks-dead-letters")]
    assert sorted(reasons) == [b"sources.clicks", b"steps.valid"]


def test_customers_go_to_a_topic_and_back(
    spark: Any, node: RunningNode, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP", postgres.dsn)
    new_topic(node, 2, "customers", cleanup_policy="compact")

    def ask(query: str) -> list[Any]:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def copied() -> list[Any]:
        for _ in range(3):  # to the topic, back, and once more: two queries do not wait for one another
            run_once(example("capture", node), spark, tmp_path)
        return ask("SELECT * FROM customers_copy ORDER BY id")

    ask("CREATE TABLE customers (id int PRIMARY KEY, name text, country text)")
    ask("INSERT INTO customers VALUES (1, 'Ada', 'GB'), (2, 'Bob', 'IE')")
    assert copied() == [(1, "Ada", "GB"), (2, "Bob", "IE")]
    ask("UPDATE customers SET name = 'Ada Lovelace' WHERE id = 1")
    ask("DELETE FROM customers WHERE id = 2")
    ask("INSERT INTO customers VALUES (3, 'Cem', NULL)")
    assert copied() == [(1, "Ada Lovelace", "GB"), (3, "Cem", None)]
    last = {message.key(): message.value() for message in messages(node, "customers", "read_committed")}
    assert last[b'{"id":2}'] is None and json.loads(last[b'{"id":1}'])["name"] == "Ada Lovelace"
