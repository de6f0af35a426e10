"""Deployed pipelines are run by workers, and taken over from one that is killed: each record once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.spark.pipelines import values
from tests.spark.topics import new_topic, write
from tests.waiting import attempts

from ottla.testing.node import RunningNode

SPEC = """
name: copying
sources:
  rows: {{topic: {source}, decode: json, schema: n BIGINT}}
steps:
  mapped: {{from: rows, map: "own_function:f", schema: n BIGINT}}
sinks:
  out: {{topic: {target}, from: mapped}}
resources: {{master: "local[1]", memory: 512m}}
"""


def command(node: RunningNode, *args: str) -> list[str]:
    return [sys.executable, "-m", "ottla.cli.main", *args, "-b", node.address]


def told(node: RunningNode, *args: str) -> Any:
    done = subprocess.run(command(node, *args, "-O", "json"), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def eventually(what: Callable[[], bool], within_s: float = 200.0) -> None:
    for _ in attempts("what workers were to do", within_s=within_s, pause_s=0.5):  # each look is a process
        if what():
            return


@pytest.fixture
def workers(node: RunningNode, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    environment = os.environ | {"PYTHONPATH": os.path.abspath("src")}

    def start(name: str) -> subprocess.Popen[bytes]:
        given = ("--folder", str(tmp_path / "shared"), "--name", name, "--session-timeout", "6")
        log = (tmp_path / f"{name}.log").open("wb")
        started.append(subprocess.Popen(command(node, "pipelines", "serve", *given), stderr=log, env=environment))
        return started[-1]

    yield start
    for process in started:
        process.terminate()
    for process in started:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.mark.timeout(600)
def test_a_worker_takes_over_from_one_that_is_killed(
    node: RunningNode, tmp_path: Path, workers: Callable[[str], subprocess.Popen[bytes]]
) -> None:
    source, target = new_topic(node), new_topic(node)
    file = tmp_path / "pipeline.yaml"
    file.write_text(SPEC.format(source=source, target=target))
    (tmp_path / "own_function.py").write_text("def f(row):\n    return {'n': row['n']}\n")
    told(node, "pipeline", "deploy", str(file))
    write(node, source, [b'{"n": %d}' % n for n in range(100)])

    first = workers("first")
    eventually(lambda: len(values(node, target)) == 100)
    (row,) = told(node, "pipeline", "list")
    assert (row["name"], row["worker"], row["error"]) == ("copying", "first", None)
    workers("second")
    first.kill()
    write(node, source, [b'{"n": %d}' % n for n in range(100, 200)])
    eventually(lambda: len(values(node, target)) >= 200)
    assert sorted(one["n"] for one in values(node, target)) == list(range(200))
    eventually(lambda: told(node, "pipeline", "list")[0]["worker"] == "second", 60)

    broken = file.read_text().replace(target, "no-such-topic")
    assert any("batch" in line["line"] for line in told(node, "pipeline", "logs", "copying"))
    file.write_text(broken)
    refused = subprocess.run(
        command(node, "pipeline", "deploy", str(file)), capture_output=True, text=True, timeout=120
    )
    assert refused.returncode == 1 and "topic no-such-topic is not there" in refused.stderr
    (tmp_path / "own_function.py").write_text("def f(row):\n    raise ValueError('no more')\n")
    file.write_text(SPEC.format(source=source, target=target))
    told(node, "pipeline", "deploy", str(file))
    write(node, source, [b'{"n": 200}'])
    eventually(lambda: "no more" in (told(node, "pipeline", "list")[0]["error"] or ""))
    assert told(node, "pipeline", "list")[0]["restarts"] >= 1
    told(node, "pipeline", "undeploy", "copying")
    eventually(lambda: told(node, "pipeline", "list") == [], 60)
