"""Tests of what needs `pip install "ottla[spark]"`; `make test-spark` runs them, and nobody else sees them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.spark.sessions import running_spark
from tests.waiting import UNTENDED

from ottla.testing.node import RunningNode, running_node

collect_ignore_glob = [] if find_spec("pyspark") and find_spec("pyarrow") else ["test_*.py"]
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node"), **UNTENDED) as running:
        yield running
