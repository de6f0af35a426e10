"""Tests of what needs `pip install "ottla[spark]"`; `make test-spark` runs them, and nobody else sees them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.collecting import ignored_without, mark_below
from tests.spark.fixtures import node as node
from tests.spark.fixtures import spark as spark

collect_ignore_glob = ignored_without()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_below(Path(__file__).parent, items)
