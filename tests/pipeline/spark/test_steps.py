"""Each kind of step, on a real Spark with given rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ottla.pipeline.spec import understood
from ottla.pipeline.trying import run_test

FUNCTIONS = """
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType


def both(orders: Any, payments: Any, *, least: int) -> Any:
    return orders.where(f"amount >= {least}").unionByName(payments)


class RunningTotal(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", StructType([StructField("total", LongType())]))

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Iterator[pd.DataFrame]:
        total = (self.total.get() or (0,))[0]
        for frame in rows:
            total += int(frame["amount"].sum())
        self.total.update((total,))
        yield pd.DataFrame({"customer": [key[0]], "total": [total]})

    def close(self) -> None:
        pass
"""
SPEC = """
name: steps
sources:
  orders:
    topic: orders
    decode: json
    schema: customer STRING, amount BIGINT, at TIMESTAMP
    watermark: {column: at, delay: 1 minute}
  payments:
    topic: payments
    decode: json
    schema: customer STRING, amount BIGINT, at TIMESTAMP
    watermark: {column: at, delay: 1 minute}
steps:
  large: {from: [orders, payments], python: "functions_of_steps:both", arguments: {least: 10}}
  totals:
    from: orders
    stateful: functions_of_steps:RunningTotal
    by: customer
    schema: customer STRING, total BIGINT
  paid: >
    SELECT o.customer, o.amount AS ordered, p.amount AS paid
    FROM orders o JOIN payments p
    ON o.customer = p.customer AND p.at BETWEEN o.at AND o.at + INTERVAL 10 MINUTES
sinks:
  large: {topic: large, from: large}
  totals: {topic: totals, from: totals}
  paid: {topic: paid, from: paid, key: customer}
tests:
  - name: a function of frames
    given:
      orders: [{customer: a, amount: 5}, {customer: b, amount: 50}]
      payments: [{customer: c, amount: 1}]
    expected:
      large: [{customer: b, amount: 50}, {customer: c, amount: 1}]
  - name: state of one's own goes on from batch to batch
    given:
      - orders: [{customer: a, amount: 5}, {customer: a, amount: 6}]
      - orders: [{customer: a, amount: 1}, {customer: b, amount: 2}]
    expected:
      totals: [{customer: a, total: 11}, {customer: a, total: 12}, {customer: b, total: 2}]
  - name: two streams are joined by time
    given:
      - orders:
          - {customer: a, amount: 5, at: 2026-11-16T12:00:00Z}
          - {customer: b, amount: 6, at: 2026-11-16T12:00:00Z}
      - payments:
          - {customer: a, amount: 5, at: 2026-11-16T12:05:00Z}
          - {customer: b, amount: 6, at: 2026-11-16T12:30:00Z}
    expected:
      paid: [{_key: a, customer: a, ordered: 5, paid: 5}]
  - name: what is not as expected is told
    given:
      orders: [{customer: b, amount: 50}]
    expected:
      large: [{customer: b, amount: 51}]
"""


def test_steps_do_what_they_are_for(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "functions_of_steps.py").write_text(FUNCTIONS)
    spec = understood(SPEC, "pipeline.yaml", tmp_path)
    told = {test.name: run_test(spec, test, spark, tmp_path / "trying").problems for test in spec.tests}
    assert told.pop("what is not as expected is told") == (
        'large: expected and not there: {"amount": 51, "customer": "b"}',
        'large: there and not expected: {"amount": 50, "customer": "b"}',
    )
    assert told == dict.fromkeys(told, ())
