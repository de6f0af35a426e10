"""Tests of what needs `pip install "ottla[spark]"`; `make test-spark` runs them, and nobody else sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.collecting import ignored_without, mark_below
from tests.spark.sessions import running_spark
from tests.waiting import UNTENDED

from ottla.testing.node import RunningNode, running_node

collect_ignore_glob = ignored_without()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_below(Path(__file__).parent, items)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node"), **UNTENDED) as running:
        yield running
