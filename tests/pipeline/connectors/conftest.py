"""Tests of what needs `pip install "ottla[pipelines]"`, with real Spark, as those of tests/spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.collecting import ignored_without, mark_below
from tests.spark.fixtures import node as node
from tests.spark.fixtures import spark as spark
from tests.tier.s3 import S3, s3_server

from ottla.testing.postgres import Postgres, postgres_programs, running_postgres

collect_ignore_glob = ignored_without("deltalake", "pyiceberg", "psycopg")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_below(Path(__file__).parent, items)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    if postgres_programs() is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    with running_postgres() as server:
        yield server
