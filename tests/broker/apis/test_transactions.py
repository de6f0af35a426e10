"""Producers in transactions are told what Apache Kafka told them.

`python -m tests.broker.apis.record_kafka_transactions` asks Kafka anew. Beside a running one:
test_transactions_beside_apache_kafka.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.apis.transacting import Place
from tests.broker.apis.transaction_stories import STORIES

from ottla.testing.node import running_node

TOLD = Path("tests/golden/kafka-transactions.json")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_node(tmp_path_factory.mktemp("node"), group_initial_rebalance_delay_ms=0) as node:
        yield node.address


@pytest.mark.parametrize("name", STORIES)
def test_what_kafka_told(address: str, name: str) -> None:
    theirs = json.loads(TOLD.read_text())[name]
    ours = json.loads(json.dumps(list(STORIES[name](Place(address, name)))))
    for step, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        assert our == their, f"step {step} of {name}"
