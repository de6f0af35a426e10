"""What is kept of Apache Kafka's answers to producers in transactions is what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.broker.apis.test_transactions import TOLD
from tests.broker.apis.transacting import Place
from tests.broker.apis.transaction_stories import STORIES

from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kafka")
    running = apache_kafka.ApacheKafka.start(folder, apache_kafka.free_port(), group_initial_rebalance_delay_ms=0)
    try:
        yield running.bootstrap
    finally:
        running.stop()


@pytest.mark.parametrize("name", STORIES)
def test_it_still_tells_the_same(kafka: str, name: str) -> None:
    told = json.loads(json.dumps(list(STORIES[name](Place(kafka, name)))))
    assert told == json.loads(TOLD.read_text())[name]
