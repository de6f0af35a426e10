"""Fixtures for the conftest of folders whose tests need a Spark and a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.spark.sessions import running_spark
from tests.waiting import UNTENDED

from ottla.testing.node import RunningNode, running_node


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node"), **UNTENDED) as running:
        yield running
