"""What the commands that run a node have for those who watch it."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path

import pytest
from tests.cli.command import OTTLA, run_ottla, unused_port
from tests.waiting import PATIENCE_S


def lines_of(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def test_a_node_in_the_background_writes_json_and_serves_its_health(data: Path) -> None:
    port, metrics_port = unused_port(), unused_port()
    up = ("up", "--port", str(port), "--data", str(data), "--detach")
    started = run_ottla(*up, "--log-format", "json", "--metrics-port", str(metrics_port))
    assert started.returncode == 0, started.stderr
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/health/ready", timeout=PATIENCE_S) as answer:
        assert json.load(answer)["state"] == "running"
    assert run_ottla("down", "--data", str(data)).returncode == 0
    told = lines_of(data / "ottla.log")
    assert {line["node_id"] for line in told} == {1}
    assert [line["address"] for line in told if "address" in line] == [f"127.0.0.1:{port}"]
    assert "\x1b" not in (data / "ottla.log").read_text()


@pytest.mark.parametrize("by", ["environment", "config"])
def test_the_form_of_the_log_can_be_chosen_in_other_ways(data: Path, by: str) -> None:
    given = ["--set", "ottla.log.format=json"] if by == "config" else []
    env = os.environ | ({"OTTLA_LOG_FORMAT": "json"} if by == "environment" else {})
    command = [*OTTLA, "up", "--port", str(unused_port()), "--data", str(data), "--detach", *given]
    started = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert started.returncode == 0, started.stderr
    assert lines_of(data / "ottla.log")


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("ottla.log.format", "xml", "must be one of human, json"),
        ("ottla.metrics.listener", "9404", "must be host:port"),
        ("ottla.metrics.listener", "127.0.0.1:99999", "must be host:port"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(data: Path, name: str, value: str, told: str) -> None:
    refused = run_ottla("up", "--data", str(data), "--set", f"{name}={value}")
    assert refused.returncode == 1
    assert name in refused.stderr and value in refused.stderr and told in refused.stderr
