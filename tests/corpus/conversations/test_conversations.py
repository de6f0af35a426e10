"""Every conversation goes as it went with Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest
from tests.corpus.conversations.recorded import SETTINGS, hold, load, prepare
from tests.corpus.conversations.registry import CONVERSATIONS
from tests.corpus.conversations.talk import Line

from ottla.testing import apache_kafka
from ottla.testing.process import NodeProcess, running_process

TIMES = 3


class Server(NamedTuple):
    node: NodeProcess
    topic_ids: dict[str, UUID]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_process(tmp_path_factory.mktemp("conversations"), **SETTINGS) as node:
        yield Server(node, prepare(node.port))
        assert "Traceback" not in node.log(), node.log()[-4000:]


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[Line]]:
    return load()


def test_all_conversations_are_recorded(recorded: dict[str, list[Line]]) -> None:
    assert list(recorded) == list(CONVERSATIONS), "python -m tests.corpus.record conversations"


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_it_goes_as_with_apache_kafka(name: str, server: Server, recorded: dict[str, list[Line]]) -> None:
    """Some members have short sessions. On a busy machine they end too early at times, and all goes another way."""
    for time in range(TIMES - 1):
        if hold(server.node.port, name, server.topic_ids, time) == recorded[name]:
            return
    _compare(hold(server.node.port, name, server.topic_ids, TIMES), recorded[name])


def _compare(held: list[Line], expected: list[Line]) -> None:
    for at, (here, kafka) in enumerate(zip(held, expected, strict=False)):
        before = "".join(f"  {who}: {json.dumps(answer)[:300]}\n" for who, answer in expected[:at])
        assert here == kafka, f"\n  Kafka: {json.dumps(kafka)}\n  here:  {json.dumps(here)}\nafter\n{before}"
    assert len(held) == len(expected)


@pytest.mark.kafka
@pytest.mark.timeout(600)
@pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars")
def test_apache_kafka_says_what_was_recorded(tmp_path: Path, recorded: dict[str, list[Line]]) -> None:
    kafka = apache_kafka.ApacheKafka.start(tmp_path, apache_kafka.free_port(), **SETTINGS)
    try:
        ids = prepare(kafka.port)
        for name in CONVERSATIONS:
            if hold(kafka.port, name, ids) != recorded[name]:  # on a busy machine it takes another way now and then
                _compare(hold(kafka.port, name, ids, 2), recorded[name])
    finally:
        kafka.stop()
