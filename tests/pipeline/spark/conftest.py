"""Pipelines on a real Spark and a real node; `make test-spark` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.collecting import ignored_without, mark_below
from tests.spark.fixtures import node as node

collect_ignore_glob = ignored_without()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_below(Path(__file__).parent, items)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from ottla.pipeline.spark_session import started
    from ottla.pipeline.spec import Resources

    folder = tmp_path_factory.mktemp("spark")
    own = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.default.parallelism": "2",
        "spark.sql.shuffle.partitions": "2",
    }
    session = started("tests", Resources(master="local[2]", spark=own), brief=True)
    yield session
    session.stop()
