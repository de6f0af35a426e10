"""`ottla pipeline` and `ottla dlq`, as far as they need no Spark."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka import Producer
from tests.cli.command import Run, new_topic_name

SPEC = """
name: shop
sources:
  orders: {{topic: {source}, decode: json, schema: "id BIGINT, amount DOUBLE"}}
  names: {{table: {table}, schema: name STRING}}
steps:
  large: SELECT o.id, n.name FROM orders o JOIN names n ON o._key = n._key WHERE amount > 100
sinks:
  out: {{topic: {target}, from: large, key: id}}
errors: {{dead-letters: letters}}
"""


def test_a_spec_is_checked_against_the_topics_that_there_are(ottla: Run, tmp_path: Path) -> None:
    source, table, target = (new_topic_name(name) for name in ("orders", "names", "large"))
    file = tmp_path / "pipeline.yaml"
    file.write_text(SPEC.format(source=source, table=table, target=target))
    wrong = ottla("pipeline", "check", str(file))
    assert wrong.returncode == 1
    assert [line.removeprefix(str(file)).split(";")[0] for line in wrong.stderr.splitlines()] == [
        f":4:19: topic {source} is not there",
        f":5:18: topic {table} is not there",
        f":9:16: topic {target} is not there",
    ]
    for topic in (source, table, target):
        ottla("topic", "create", topic)
    told = json.loads(ottla("pipeline", "check", str(file), "-O", "json").stdout)
    assert not told["right"] and "is not compacted (cleanup.policy is delete)" in told["problems"][0]
    ottla("config", "set", "topic", table, "cleanup.policy=compact")
    right = ottla("pipeline", "check", str(file))
    assert right.returncode == 0, right.stderr
    assert right.stderr.endswith("is right: 2 sources, 1 step, 1 sink, 0 tests\n")


def test_a_plan_is_drawn(ottla: Run, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(SPEC.format(source="o", table="n", target="t"))
    drawn = ottla("pipeline", "plan", str(file)).stdout
    assert drawn.splitlines() == [
        "shop",
        "  ○ orders  topic o (stream)",
        "  ○ names   table n (table)",
        "  │ large   orders, names → SQL",
        "  ● out     large → topic t",
        "  ✗         orders → dead letters: topic letters",
    ]
    mermaid = ottla("pipeline", "plan", str(file), "--as", "mermaid").stdout
    assert mermaid.startswith("flowchart LR\n") and "orders --> large" in mermaid
    rows = json.loads(ottla("pipeline", "plan", str(file), "-O", "json").stdout)
    assert rows[2] == {"part": "step", "name": "large", "from": ["orders", "names"], "what": "SQL"}


def test_status_and_stop_of_what_has_never_run(ottla: Run, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(SPEC.format(source="o", table="n", target="t"))
    place = ("--checkpoint", str(tmp_path / "state"))
    assert ottla("pipeline", "status", str(file), *place).stderr == "shop has not run yet\n"
    assert json.loads(ottla("pipeline", "stop", str(file), *place, "-O", "json").stdout)["stopped"] is False
    refused = ottla("pipeline", "replay", str(file), "--from", "yesterday", "--yes", *place)
    assert refused.returncode == 1 and "not 'yesterday'" in refused.stderr
    done = ottla("pipeline", "replay", str(file), "--from", "latest", "--yes", *place, "-O", "json")
    assert json.loads(done.stdout) == {"pipeline": "shop", "from": "latest", "generation": 1}


def test_dead_letters_are_shown_and_replayed_once(ottla: Run, node: str) -> None:
    origin, letters = new_topic_name("orders"), new_topic_name("letters")
    for topic in (origin, letters):
        ottla("topic", "create", topic)
    about = {"reason": "not json", "stage": "sources.orders", "topic": origin, "partition": "0", "offset": "5"}
    headers = [(f"__ottla.errors.{name}", value) for name, value in about.items()]
    producer = Producer({"bootstrap.servers": node})
    producer.produce(letters, b"{", b"k", headers=[("own", b"1"), *headers])
    producer.produce(letters, b"row", headers=[("__ottla.errors.stage", "steps.s")])
    producer.flush(10)

    shown = json.loads(ottla("dlq", "show", letters, "-O", "json").stdout)
    assert [(one["origin"], one["reason"], one["value"]) for one in shown] == [
        (f"{origin}-0@5", "not json", "{"), ("-", None, "row"),
    ]  # fmt: skip
    refused = ottla("dlq", "replay", letters, "--yes")
    assert refused.returncode == 1 and "where the letter at 0@1 came from is not known" in refused.stderr
    done = ottla("dlq", "replay", letters, "--stage", "sources.orders", "--yes", "-O", "json")
    assert json.loads(done.stdout) == {"topic": letters, "records": 1, "to": [origin]}
    again = ottla("dlq", "replay", letters, "--stage", "sources.orders", "--yes")
    assert "no dead letters" in again.stderr
    others = new_topic_name("others")
    ottla("topic", "create", others)
    rest = ottla("dlq", "replay", letters, "--to", others, "--yes", "-O", "json")  # those of other stages are left
    assert json.loads(rest.stdout) == {"topic": letters, "records": 1, "to": [others]}
    assert ottla("consume", others, "--from-beginning", "-e", "-f", "%s\\n").stdout == "row\n"
    assert "no dead letters" in ottla("dlq", "replay", letters, "--yes").stderr
    lines = ottla("consume", origin, "--from-beginning", "-e", "-f", "%k %s %h\\n").stdout
    assert lines.splitlines() == ["k { own=1"]


def test_deployed_pipelines_are_listed(ottla: Run, tmp_path: Path) -> None:
    assert "No pipeline is deployed" in ottla("pipeline", "list").stderr
    source, target = new_topic_name("orders"), new_topic_name("large")
    for topic in (source, target):
        ottla("topic", "create", topic)
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"name: shop\nsources: {{o: {{topic: {source}}}}}\nsteps: {{m: {{from: o, map: 'own:f', schema: a INT}}}}\n"
        f"sinks: {{out: {{topic: {target}, from: m}}}}\n"
    )
    refused = ottla("pipeline", "deploy", str(file))
    assert refused.returncode == 1 and "there is no module own" in refused.stderr
    (tmp_path / "own.py").write_text("def f(row): return row\n")
    done = ottla("pipeline", "deploy", str(file), "-O", "json")
    assert json.loads(done.stdout) == {"pipeline": "shop", "modules": ["own.py"]}
    (row,) = json.loads(ottla("pipeline", "list", "-O", "json").stdout)
    assert (row["name"], row["state"]) == ("shop", "unclaimed")
    assert "`ottla pipelines serve` starts one" in ottla("pipeline", "list").stderr
    assert "shop has not said anything yet" in ottla("pipeline", "logs", "shop").stderr
    missed = ottla("pipeline", "logs", "shp")
    assert missed.returncode == 1 and "did you mean shop?" in missed.stderr
    assert "did you mean shop?" in ottla("pipeline", "undeploy", "shp").stderr
    assert ottla("pipeline", "undeploy", "shop").returncode == 0
    assert json.loads(ottla("pipeline", "list", "-O", "json").stdout) == []
