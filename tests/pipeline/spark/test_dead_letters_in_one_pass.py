"""Rows and dead letters are made of the same micro-batch: each record becomes one or the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.spark.pipelines import run_once, spec_of, values
from tests.spark.topics import new_topic, write

from ottla.model.errors import OttlaError
from ottla.testing.node import RunningNode

SPEC = """
name: {name}
sources:
  rows: {{topic: {source}, decode: json, schema: "n BIGINT"}}
steps:
  right: {step}
sinks:
  out: {{topic: {target}, from: right, key: n, partitions: 1}}
errors: {{{errors}}}
"""
MOODY = """
import random

def f(row):
    if random.random() < 0.5:
        raise OSError("not today")
    return row
"""
LETTERS = "dead-letters: {name}-dead"


def numbers(count: int) -> list[bytes]:
    return [json.dumps({"n": n}).encode() for n in range(count)]


def offsets_of(state: Path) -> list[str]:
    """Of the last micro-batch, a line for each source."""
    last = max((state / "0" / "right" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    return last.read_text().splitlines()[2:]


def test_dead_letters_can_be_asked_for_after_a_record_was_wrong(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, state = new_topic(node), tmp_path / "state"
    given = {"name": "later", "source": source, "target": f"{source}-out"}
    given["step"] = "{from: rows, require: {n is small: n < 2}}"
    strict = spec_of(SPEC.format(errors="policy: fail", **given), node, tmp_path)
    write(node, source, numbers(1))
    run_once(strict, spark, state)
    write(node, source, numbers(3)[1:])
    with pytest.raises(OttlaError, match="n is small"):
        run_once(strict, spark, state)
    write(node, source, [b"{"])
    run_once(spec_of(SPEC.format(errors=LETTERS.format(name="later"), **given), node, tmp_path), spark, state)
    assert [one["n"] for one in values(node, given["target"])] == [0, 1]
    assert len(offsets_of(state)) == 1


def test_a_function_that_fails_now_and_then_loses_and_doubles_nothing(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source = new_topic(node, 2)
    (tmp_path / "moody.py").write_text(MOODY)
    given = {"name": "moody", "source": source, "target": f"{source}-out", "errors": LETTERS.format(name="moody")}
    given["step"] = "{from: rows, map: 'moody:f', schema: n BIGINT}"
    write(node, source, numbers(200))
    run_once(spec_of(SPEC.format(**given), node, tmp_path), spark, tmp_path / "state")
    found, dead = values(node, given["target"]), values(node, "moody-dead")
    assert found and dead and sorted(one["n"] for one in found + dead) == list(range(200))


def test_with_state_dead_letters_come_from_the_plan(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source = new_topic(node)
    given = {"name": "counted", "source": source, "target": f"{source}-out", "errors": LETTERS.format(name="counted")}
    given["step"] = "SELECT n, count(*) AS many FROM rows GROUP BY n"
    text = SPEC.format(**given).replace("partitions: 1", "partitions: 1, mode: update")
    write(node, source, [*numbers(1), b"{", *numbers(1)])
    run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
    assert values(node, given["target"]) == [{"n": 0, "many": 2}]
    assert len(offsets_of(tmp_path / "state")) == 2


def test_what_cannot_be_done_with_a_stream_is_still_refused(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, table = new_topic(node), new_topic(node, 1, cleanup_policy="compact")
    given = {"name": "outer", "source": source, "target": f"{source}-out", "errors": LETTERS.format(name="outer")}
    given["step"] = "SELECT t.n FROM rows r RIGHT JOIN things t ON r.n = t.n"
    text = SPEC.format(**given).replace("steps:", f'  things: {{table: {table}, schema: "n BIGINT"}}\nsteps:')
    with pytest.raises(OttlaError, match=r"right cannot run: .*RightOuter"):
        run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
