"""The worked examples run on a real node, and their own tests pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.spark.pipelines import EXAMPLES, example, run_once, values
from tests.spark.topics import messages, new_topic, write

from ottla.pipeline.trying import run_test
from ottla.testing.node import RunningNode

NOON = 1_794_830_400_000  # 2026-11-16T12:00:00Z
OURS = ("ledger", "orders", "sessions", "word_count")


@pytest.mark.parametrize("name", OURS)
def test_its_own_tests_pass(name: str, spark: Any, node: RunningNode, tmp_path: Path) -> None:
    spec = example(name, node)
    assert spec.doubts == () and spec.tests
    for test in spec.tests:
        assert run_test(spec, test, spark, tmp_path / "trying").problems == (), test.name


def test_words_are_counted_and_counts_go_on_after_a_restart(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    new_topic(node, 2, "lines")
    write(node, "lines", [b"to be or not to be"], 0, timestamp=NOON)
    run_once(example("word_count", node), spark, tmp_path)
    write(node, "lines", [b"to err"], 1, timestamp=NOON + 1000)
    run_once(example("word_count", node), spark, tmp_path)
    found = {(row["word"], row["count"]) for row in values(node, "word-counts")}
    assert found == {("to", 2), ("be", 2), ("or", 1), ("not", 1), ("to", 3), ("err", 1)}


def test_orders_are_enriched_by_what_the_table_says_now(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    new_topic(node, 2, "orders")
    new_topic(node, 1, "customers", cleanup_policy="compact")
    write(node, "customers", [b'{"name": "Ada", "country": "GB"}'], key=b"c1")
    write(node, "orders", [b'{"id": 1, "customer": "c1", "amount": 100}', b"not json at all"], key=b"k")
    run_once(example("orders", node), spark, tmp_path)
    write(node, "customers", [b'{"name": "Ada Lovelace", "country": "GB"}'], key=b"c1")
    write(node, "customers", [b'{"name": "Bob", "country": "IE"}', None], key=b"c2")
    orders = [
        {"id": 2, "customer": "c1", "amount": 1}, {"id": 3, "customer": "c2", "amount": 1},
        {"id": 4, "customer": "c2", "amount": -4}, {"id": 5, "customer": "c2", "amount": 2000000},
    ]  # fmt: skip
    write(node, "orders", [json.dumps(order).encode() for order in orders], 1)
    run_once(example("orders", node), spark, tmp_path)
    found = {row["id"]: row["name"] for row in values(node, "enriched-orders")}
    assert found == {1: "Ada", 2: "Ada Lovelace", 3: None}
    assert {message.key() for message in messages(node, "enriched-orders")} == {b"1", b"2", b"3"}
    dead = messages(node, "orders-dead-letters", "read_committed")
    told = [dict(message.headers()) for message in dead]
    assert sorted((one["__ottla.errors.stage"], one["__ottla.errors.offset"]) for one in told) == [
        (b"sources.orders", b"1"), (b"steps.priced", b"3"), (b"steps.valid", b"2"),
    ]  # fmt: skip
    by_stage = {one["__ottla.errors.stage"]: one for one in told}
    assert by_stage[b"sources.orders"]["__ottla.errors.reason"].startswith(b"value is not json")
    assert by_stage[b"steps.valid"]["__ottla.errors.reason"] == b"the amount is more than nothing"
    assert b"needs a signature" in by_stage[b"steps.priced"]["__ottla.errors.trace"]
    assert (b"k", b"not json at all") in {(message.key(), message.value()) for message in dead}


def test_visits_end_when_nobody_can_be_late_any_more(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    new_topic(node, 1, "clicks")
    clicks = [("a", "ada", "12:00:00"), ("b", "ada", "12:15:00"), ("b", "ada", "12:15:00"), ("c", "ada", "12:08:00")]
    rows = [{"click": click, "user": user, "page": "/", "at": f"2026-11-16T{at}Z"} for click, user, at in clicks]
    write(node, "clicks", [json.dumps(row).encode() for row in rows])
    run_once(example("sessions", node), spark, tmp_path)
    assert values(node, "visits") == []
    late = {"click": "d", "user": "bob", "page": "/", "at": "2026-11-16T14:00:00Z"}
    write(node, "clicks", [json.dumps(late).encode()])
    run_once(example("sessions", node), spark, tmp_path)
    assert [(row["user"], row["clicks"]) for row in values(node, "visits")] == [("ada", 3)]


def test_all_examples_are_tested() -> None:
    there = {folder.name for folder in EXAMPLES.iterdir() if (folder / "pipeline.yaml").exists()}
    assert there >= set(OURS)
