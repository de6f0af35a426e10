"""Apache Kafka and Ottla side by side, with the same settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from ottla.testing import apache_kafka
from ottla.testing.node import running_node


class Both(NamedTuple):
    """Their addresses."""

    kafka: str
    ottla: str


@contextmanager
def running_both(folders: pytest.TempPathFactory, **settings: Any) -> Iterator[Both]:
    kafka = apache_kafka.ApacheKafka.start(folders.mktemp("kafka"), apache_kafka.free_port(), **settings)
    try:
        with running_node(folders.mktemp("ottla"), **settings) as ottla:
            yield Both(kafka.bootstrap, ottla.address)
    finally:
        kafka.stop()
