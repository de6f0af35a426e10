"""Joins of tables: a change of either side writes the joined row anew, within one run and without a restart."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.pipeline.spark.pipelines import spec_of
from tests.spark.topics import messages, new_topic, write
from tests.waiting import until

from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.running import Run
from ottla.pipeline.spec import Spec
from ottla.testing.node import RunningNode

BY_KEY = """
name: by-key
sources:
  customers: {{table: {left}, schema: name STRING}}
  addresses: {{table: {right}, schema: city STRING}}
  customer_changes: {{topic: {left}}}
  address_changes: {{topic: {right}}}
steps:
  changed: SELECT _key AS id FROM customer_changes UNION ALL SELECT _key FROM address_changes
  joined: >
    SELECT changed.id, c.name, a.city
    FROM changed LEFT JOIN customers c ON changed.id = c._key LEFT JOIN addresses a ON changed.id = a._key
sinks:
  out: {{topic: {target}, from: joined, key: id, delete: name IS NULL OR city IS NULL, partitions: 1, compacted: true}}
"""
BY_FOREIGN_KEY = """
name: by-foreign-key
sources:
  orders: {{table: {left}, schema: "customer STRING, amount BIGINT"}}
  customers: {{table: {right}, schema: name STRING}}
  order_changes: {{topic: {left}}}
  customer_changes: {{topic: {right}}}
steps:
  changed: >
    SELECT _key AS id FROM order_changes
    UNION ALL
    SELECT o._key FROM customer_changes c JOIN orders o ON o.customer = c._key
  joined: >
    SELECT changed.id, o.amount, c.name
    FROM changed LEFT JOIN orders o ON changed.id = o._key LEFT JOIN customers c ON o.customer = c._key
sinks:
  out: {{topic: {target}, from: joined, key: id, delete: amount IS NULL, partitions: 1, compacted: true}}
"""


@contextmanager
def running(spec: Spec, spark: Any, folder: Path) -> Iterator[None]:
    checkpoint, failed = Checkpoint(folder), list[BaseException]()

    def run() -> None:
        try:
            with checkpoint.held():
                Run(spec, spark, checkpoint, lambda line: None).until_done()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        checkpoint.ask_to_stop()
        thread.join(120)
    assert not failed, failed


class Table:
    """What a compacted topic says."""

    def __init__(self, node: RunningNode, topic: str) -> None:
        self._node = node
        self.topic = topic

    def put(self, key: str, **row: Any) -> None:
        write(self._node, self.topic, [json.dumps(row).encode() if row else None], key=key.encode())

    def rows(self) -> dict[str, Any]:
        found = {one.key().decode(): one.value() for one in messages(self._node, self.topic, "read_committed")}
        return {key: json.loads(value) for key, value in found.items() if value is not None}

    def becomes(self, rows: dict[str, Any]) -> None:
        until(lambda: self.rows() == rows, lambda: f"{self.rows()} and not {rows}", within_s=120)


def tables(node: RunningNode) -> tuple[Table, Table, Table]:
    left, right = (Table(node, new_topic(node, 1, cleanup_policy="compact")) for _ in range(2))
    return left, right, Table(node, new_topic(node, 1, cleanup_policy="compact"))


def test_a_change_of_either_side_is_written(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    customers, addresses, joined = tables(node)
    text = BY_KEY.format(left=customers.topic, right=addresses.topic, target=joined.topic)
    customers.put("1", name="Ada")
    addresses.put("1", city="London")
    customers.put("2", name="Bob")
    with running(spec_of(text, node, tmp_path), spark, tmp_path / "state"):
        ada = {"id": "1", "name": "Ada", "city": "London"}
        joined.becomes({"1": ada})
        addresses.put("2", city="Cork")
        bob = {"id": "2", "name": "Bob", "city": "Cork"}
        joined.becomes({"1": ada, "2": bob})
        customers.put("2", name="Robert")
        joined.becomes({"1": ada, "2": {**bob, "name": "Robert"}})
        addresses.put("1")
        joined.becomes({"2": {**bob, "name": "Robert"}})


def test_tables_are_joined_by_a_column_that_is_no_key(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    orders, customers, joined = tables(node)
    text = BY_FOREIGN_KEY.format(left=orders.topic, right=customers.topic, target=joined.topic)
    orders.put("o1", customer="c1", amount=10)
    orders.put("o2", customer="c1", amount=20)
    orders.put("o3", customer="c2", amount=30)
    customers.put("c1", name="Ada")

    def rows(**names: str | None) -> dict[str, Any]:
        amounts = {"o1": 10, "o2": 20, "o3": 30}
        return {key: {"id": key, "amount": amounts[key], "name": name} for key, name in names.items()}

    with running(spec_of(text, node, tmp_path), spark, tmp_path / "state"):
        joined.becomes(rows(o1="Ada", o2="Ada", o3=None))
        customers.put("c1", name="Ada Lovelace")
        joined.becomes(rows(o1="Ada Lovelace", o2="Ada Lovelace", o3=None))
        orders.put("o2")
        customers.put("c2", name="Bob")
        joined.becomes(rows(o1="Ada Lovelace", o3="Bob"))
