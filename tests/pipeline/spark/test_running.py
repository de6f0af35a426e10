"""Pipelines run on a real Spark and a real node: exactly once, with dead letters, and nothing that breaks state."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.pipeline.spark.pipelines import run_once, spec_of, values
from tests.spark.topics import forget_last_commit, messages, new_topic, write
from tests.waiting import until

from ottla.model.errors import OttlaError
from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.running import Run
from ottla.testing.node import RunningNode

COPY = """
name: {name}
sources:
  rows: {{topic: {source}, decode: json, schema: "n BIGINT, kind STRING"}}
steps:
  positive: {{from: rows, require: {{n is positive: n > 0}}}}
  doubled: SELECT n * 2 AS n, kind FROM positive
sinks:
  out: {{topic: {target}, from: doubled, key: n}}
  again: {{topic: {target}-2, from: doubled, partitions: 1, delete: n > 4, key: kind}}
errors: {{dead-letters: {name}-dead}}
"""
COUNT = """
name: {name}
sources:
  rows: {{topic: {source}, decode: json, schema: "n BIGINT, kind STRING"}}
steps:
  counted: SELECT {by}, count(*) AS many FROM rows {where} GROUP BY {by}
sinks:
  out: {{topic: {target}, from: counted, key: {by}, mode: update, partitions: 1}}
"""
NOON = 1_794_830_400_000  # 2026-11-16T12:00:00Z


def row(n: int, kind: str = "a") -> bytes:
    return json.dumps({"n": n, "kind": kind}).encode()


def test_a_batch_that_is_repeated_is_written_once_with_its_dead_letters(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node, 2), new_topic(node, 2)
    spec = spec_of(COPY.format(name="copy", source=source, target=target), node, tmp_path)
    write(node, source, [row(1), b"{", row(-1), row(3)], key=b"k")
    run_once(spec, spark, tmp_path / "state")
    status = Checkpoint(tmp_path / "state").status()
    assert status is not None and status["state"] == "stopped" and status["queries"]["doubled"]["behind"] == 0
    forget_last_commit(tmp_path / "state" / "0" / "doubled")
    run_once(spec, spark, tmp_path / "state")
    assert sorted(one["n"] for one in values(node, target)) == [2, 6]
    assert values(node, f"{target}-2") == [{"n": 2, "kind": "a"}, None]
    dead = messages(node, "copy-dead", "read_committed")
    assert sorted((one.key(), one.value()) for one in dead) == [(b"k", b"{"), (b"k", b'{"n":-1,"kind":"a"}')]
    told = {dict(one.headers())["__ottla.errors.offset"] for one in dead}
    assert told == {b"1", b"2"}


def test_without_dead_letters_the_first_wrong_record_ends_it(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node), new_topic(node)
    text = COPY.format(name="strict", source=source, target=target).replace("dead-letters: strict-dead", "policy: fail")
    write(node, source, [row(1), row(-5)])
    with pytest.raises(OttlaError, match=r"step positive rejects a row, as it is not so that n is positive"):
        run_once(spec_of(text, node, tmp_path), spark, tmp_path / "a")
    write(node, source, [b"{"])
    with pytest.raises(OttlaError, match=r"the value of the record at offset 2 cannot be decoded as json"):
        run_once(spec_of(text.replace("n > 0", "true"), node, tmp_path), spark, tmp_path / "b")
    assert values(node, target) == []
    status = Checkpoint(tmp_path / "b").status()
    assert status is not None and status["state"] == "failed" and "offset 2" in status["error"]
    run_once(spec_of(text.replace("policy: fail", "policy: skip"), node, tmp_path), spark, tmp_path / "c")
    assert values(node, target) == [{"n": 2, "kind": "a"}]


def test_a_change_that_would_break_the_state_is_refused_and_replay_is_the_way_out(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node), f"{new_topic(node)}-counts"
    given = {"name": "counting", "source": source, "target": target, "where": ""}
    write(node, source, [row(1), row(2), row(2, "b")])
    run_once(spec_of(COUNT.format(by="kind", **given), node, tmp_path), spark, tmp_path / "state")
    assert sorted((one["kind"], one["many"]) for one in values(node, target)) == [("a", 2), ("b", 1)]

    with pytest.raises(
        OttlaError, match=r"(?s)counted has changed.*was: Aggregate.*is:  Aggregate.*replay FILE --from"
    ):
        run_once(spec_of(COUNT.format(by="n", **given), node, tmp_path), spark, tmp_path / "state")

    given["where"] = "WHERE kind = 'a'"  # what goes into the state may change
    write(node, source, [row(3), row(3, "b")])
    run_once(spec_of(COUNT.format(by="kind", **given), node, tmp_path), spark, tmp_path / "state")
    assert [(one["kind"], one["many"]) for one in values(node, target)][-1] == ("a", 3)

    Checkpoint(tmp_path / "state").begin_anew("earliest")
    given["where"] = ""
    run_once(spec_of(COUNT.format(by="n", **given), node, tmp_path), spark, tmp_path / "state")
    assert sorted((one["n"], one["many"]) for one in values(node, target) if "n" in one) == [(1, 1), (2, 2), (3, 2)]


def test_windows_of_another_length_are_refused_and_another_delay_is_not(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node), f"{new_topic(node)}-counts"
    text = f"""
name: windows
sources:
  rows: {{topic: {source}, watermark: {{column: _timestamp, delay: 10 seconds}}}}
steps:
  counted: SELECT window.start AS since, count(*) AS many FROM rows GROUP BY window(_timestamp, '1 minute')
  visits: SELECT value, count(*) AS many FROM rows GROUP BY session_window(_timestamp, '1 minute'), value
sinks:
  out: {{topic: {target}, from: counted, mode: update, partitions: 1}}
  visits: {{topic: {target}-visits, from: visits, partitions: 1}}
"""
    write(node, source, [b"a"], timestamp=NOON)
    run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
    longer = text.replace("window(_timestamp, '1 minute')\n  visits", "window(_timestamp, '5 minutes')\n  visits")
    with pytest.raises(OttlaError, match=r"(?s)counted has changed.*was: windows of 60 s.*is:  windows of 300 s"):
        run_once(spec_of(longer, node, tmp_path), spark, tmp_path / "state")
    patient = text.replace("session_window(_timestamp, '1 minute')", "session_window(_timestamp, '2 minutes')")
    with pytest.raises(OttlaError, match=r"(?s)visits has changed.*was: sessions .* 1 minute.*is:  sessions .* 2 min"):
        run_once(spec_of(patient, node, tmp_path), spark, tmp_path / "state")
    write(node, source, [b"b"], timestamp=NOON + 1000)
    run_once(spec_of(text.replace("10 seconds", "20 seconds"), node, tmp_path), spark, tmp_path / "state")
    assert [one["many"] for one in values(node, target)] == [1, 2]


def test_sources_that_change_places_are_a_change_too(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    one, other, target = new_topic(node), new_topic(node), new_topic(node)
    text = f"""
name: united
sources:
  one: {{topic: {one}}}
  other: {{topic: {other}}}
steps:
  other_large: SELECT upper(value) AS value FROM other
  both: SELECT value FROM one UNION ALL SELECT value FROM other_large
sinks:
  out: {{topic: {target}, from: both}}
"""
    write(node, one, [b"a"])
    write(node, other, [b"b", b"c"])
    run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
    swapped = text.replace(
        "SELECT value FROM one UNION ALL SELECT value FROM other_large",
        "SELECT value FROM other_large UNION ALL SELECT value FROM one",
    )
    with pytest.raises(OttlaError, match=r"(?s)both has changed.*its parts come in another order now"):
        run_once(spec_of(swapped, node, tmp_path), spark, tmp_path / "state")
    write(node, other, [b"d"])
    run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
    assert sorted(row["value"] for row in values(node, target)) == ["B", "C", "D", "a"]


def test_a_change_that_only_spark_finds_to_break_the_state_is_told_with_the_way_out(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node), f"{new_topic(node)}-sums"
    text = COUNT.replace("count(*)", "max(n)").format(
        name="typed", source=source, target=target, by="kind", where=""
    )  # fmt: skip
    write(node, source, [row(1), row(2)])
    run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
    write(node, source, [row(3)])
    with pytest.raises(OttlaError, match=r"(?s)counted has changed so that it could not go on.*replay FILE --from"):
        run_once(spec_of(text.replace("n BIGINT", "n DOUBLE"), node, tmp_path), spark, tmp_path / "state")
    run_once(spec_of(text, node, tmp_path), spark, tmp_path / "state")
    assert [one["many"] for one in values(node, target)] == [2, 3]


def test_dead_letters_have_the_key_and_the_headers_of_their_records(
    spark: Any, node: RunningNode, tmp_path: Path
) -> None:
    source, target = new_topic(node), new_topic(node)
    (tmp_path / "picky.py").write_text("def f(row):\n    return {'n': 1 // row['n']}\n")
    text = COPY.format(name="letters", source=source, target=target).replace(
        "SELECT n * 2 AS n, kind FROM positive", "{from: positive, map: 'picky:f', schema: n INT}"
    )
    text = (
        text.replace("n > 0", "n >= 0")
        .replace(", key: kind", ", key: n")
        .replace('kind STRING"', 'kind STRING", headers: true')
    )
    producer = Producer({"bootstrap.servers": node.address})
    for value in (b"{", row(-1), row(0)):
        producer.produce(source, value, b"k", headers=[("trace", b"7"), ("none", None)])
    producer.flush(30)
    plain = text.replace("headers: true", "headers: false").replace("name: letters", "name: plain")
    for one in (text, plain.replace("letters-dead", "plain-dead")):
        name = "letters" if one is text else "plain"
        run_once(spec_of(one, node, tmp_path), spark, tmp_path / name)
    found = {
        dict(one.headers())["__ottla.errors.stage"]: one for one in messages(node, "letters-dead", "read_committed")
    }
    assert set(found) == {b"sources.rows", b"steps.positive", b"steps.doubled"}
    for one in found.values():
        assert one.key() == b"k" and one.headers()[:2] == [("trace", b"7"), ("none", None)]
        assert b"__ottla.errors.timestamp" in {name.encode() for name, _ in one.headers()}
    assert found[b"sources.rows"].value() == b"{"
    unread = {
        dict(one.headers())["__ottla.errors.stage"]: one for one in messages(node, "plain-dead", "read_committed")
    }
    assert unread[b"sources.rows"].headers()[:1] == [("trace", b"7")]
    assert {one.key() for one in unread.values()} == {b"k"}


def test_it_runs_until_it_is_asked_to_stop_and_only_once(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node), new_topic(node)
    spec = spec_of(COPY.format(name="endless", source=source, target=target), node, tmp_path)
    checkpoint, said, failed = Checkpoint(tmp_path / "state"), list[str](), list[BaseException]()
    write(node, source, [row(n) for n in range(1, 101)])

    def run() -> None:
        try:
            with checkpoint.held():
                Run(spec, spark, checkpoint, lambda now: said.append(now.line())).until_done()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: said or failed, within_s=120)
    assert said and not failed
    with pytest.raises(OttlaError, match=r"the pipeline runs already \(process \d+ on"), checkpoint.held():
        pass
    checkpoint.ask_to_stop()
    thread.join(60)
    assert not thread.is_alive() and not failed and not checkpoint.is_held
    assert len(values(node, target)) == 100
    assert said[0].startswith("doubled: batch 0, ") and "behind" in said[0]


def test_what_spark_cannot_do_is_told_with_the_step(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node), new_topic(node)
    text = COPY.format(name="wrong", source=source, target=target)
    with pytest.raises(OttlaError, match=r"pipeline.yaml: steps.doubled: .*nothing_like_it"):
        run_once(spec_of(text.replace("n * 2", "nothing_like_it(n)"), node, tmp_path), spark, tmp_path / "a")
    with pytest.raises(OttlaError, match=r"pipeline.yaml:\d+:\d+: there is no column knd; did you mean kind"):
        run_once(spec_of(text.replace("key: kind}", "key: knd}"), node, tmp_path), spark, tmp_path / "b")
    mapped = text.replace(
        "  doubled: SELECT n * 2 AS n, kind FROM positive",
        "  doubled: {from: positive, map: 'nowhere:f', schema: n INT}",
    )
    with pytest.raises(OttlaError, match=r"steps.doubled: nowhere:f: No module named 'nowhere'"):
        run_once(spec_of(mapped.replace(", key: kind", ", key: n"), node, tmp_path), spark, tmp_path / "c")
