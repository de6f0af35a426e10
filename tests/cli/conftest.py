"""A node started by the command itself, as a user would, and a way to run commands against it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import Run, run_ottla, unused_port
from tests.waiting import UNTENDED

from ottla.testing.apache_kafka import ApacheKafka, free_port

SETTINGS = {"group_initial_rebalance_delay_ms": 100, **UNTENDED}


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node that lives as long as the tests of this folder."""
    folder = tmp_path_factory.mktemp("node")
    port = unused_port()
    given = [f"--set={name.replace('_', '.')}={value}" for name, value in SETTINGS.items()]
    started = run_ottla("up", "--port", str(port), "--data", str(folder), "--detach", *given)
    assert started.returncode == 0, started.stderr + (folder / "ottla.log").read_text()
    yield f"127.0.0.1:{port}"
    stopped = run_ottla("down", "--data", str(folder))
    assert stopped.returncode == 0, stopped.stderr


def runner(address: str) -> Run:
    def run(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return run_ottla(*args, stdin=stdin, address=address)

    return run


@pytest.fixture
def ottla(node: str) -> Run:
    """Runs a command against the node."""
    return runner(node)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    started = ApacheKafka.start(tmp_path_factory.mktemp("kafka"), free_port())
    yield started
    started.stop()


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.kafka)])
def anywhere(request: pytest.FixtureRequest) -> Run:
    """Runs a command against the node, and against Apache Kafka where there is one."""
    if request.param == "kafka":
        return runner(request.getfixturevalue("kafka").bootstrap)
    return runner(request.getfixturevalue("node"))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder whose node is stopped afterwards, whatever the test did."""
    folder = tmp_path / "data"
    yield folder
    if folder.is_dir():
        run_ottla("down", "--data", str(folder))
