"""`ottla perf` against a running node: small loads, whose figures must add up."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from tests.cli.command import Run, new_topic_name

from ottla.cli.perf.figures import latency, percentile


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    name = new_topic_name(request.node.name)
    ottla("topic", "create", name, "-p", "2")
    return name


def figures(run: Run, *args: str) -> dict[str, Any]:
    done = run("perf", *args, "-O", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_is_written_is_counted_and_is_there(ottla: Run, topic: str) -> None:
    found = figures(ottla, "produce", topic, "-n", "5250", "-s", "50", "-z", "lz4", "-p", "0")
    assert (found["records"], found["bytes"], found["failed"]) == (5250, 262_500, 0)
    assert 50 <= found["looked_at"] <= 60 and found["latency_ms"]["min"] <= found["latency_ms"]["p99"]
    # a few milliseconds, told to one
    assert 5250 / (found["seconds"] + 0.001) < found["records_per_second"] < 5250 / max(found["seconds"] - 0.001, 1e-9)

    read = figures(ottla, "consume", topic)
    assert (read["records"], read["bytes"]) == (5250, 262_500)
    assert figures(ottla, "consume", topic, "-n", "100")["records"] == 100
    ottla("topic", "purge", topic, "--before-offset", "100", "--yes")
    assert figures(ottla, "consume", topic)["records"] == 5150


def test_a_rate_is_kept_and_every_record_looked_at(ottla: Run, topic: str) -> None:
    found = figures(ottla, "produce", topic, "--rate", "200", "-d", "0.5")
    assert 80 <= found["records"] <= 120 and found["looked_at"] == found["records"]


def test_records_that_are_refused_are_told(ottla: Run) -> None:
    ottla("topic", "create", "perf-small", "-c", "max.message.bytes=100")
    done = ottla("perf", "produce", "perf-small", "-n", "10", "-s", "500")
    assert done.returncode == 1 and "failed: Broker: Message size too large" in done.stdout


def test_an_empty_topic_is_read_at_once(ottla: Run, topic: str) -> None:
    assert figures(ottla, "consume", topic)["records"] == 0


@pytest.mark.parametrize("more", [(), ("--rate", "200")])
def test_the_way_through_a_topic_is_measured(ottla: Run, topic: str, more: tuple[str, ...]) -> None:
    found = figures(ottla, "e2e", topic, "-n", "40", *more)
    assert found["records"] == 40 and 0 < found["latency_ms"]["p50"] < 1000
    text = ottla("perf", "e2e", topic, "-n", "5", *more).stdout
    assert text.startswith(f"5 records of 100 bytes through {topic}") and "p99.9" in text
    assert yaml.safe_load(ottla("perf", "e2e", topic, "-n", "5", "-O", "yaml").stdout)["records"] == 5


@pytest.mark.parametrize(
    ("percent", "value"), [(50, 5), (95, 10), (99.9, 10), (10, 1), (11, 2), (0, 1), (100, 10)]
)  # fmt: skip
def test_percentiles_are_values_that_occurred(percent: float, value: int) -> None:
    assert percentile(list(range(1, 11)), percent) == value


def test_without_samples_there_is_no_latency() -> None:
    assert latency([]) is None
