"""Records that a leader has taken when its followers fall silent, before they have them: the part of the durability
contract that tests/broker/test_durability_table.py, whose followers are dead before the write, does not show.

The high watermark stands still below min.insync.replicas (KIP-966), so a producer is told neither "acknowledged" nor
"refused": its request times out, and the record is there when the followers are back.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.clients import QUIET
from tests.waiting import PATIENCE_S, until

from ottla.testing import apache_kafka_cluster
from ottla.testing.process_cluster import running_processes

_NODES = 5  # a majority of the quorum, also when two of them stand still
_MIN_ISRS = (1, 2, 3)
_STRICTEST = "min3"
_SILENT = [b"1 silent", b"2 silent"]
_LAG_MS = 4_000
_REQUEST_MS = {"ottla": 10_000, "Apache Kafka": 20_000}
"""Longer than it takes to be taken for out of sync, also if the controller was one of the silent."""


@contextmanager
def nodes(kind: str, folder: Path) -> Iterator[tuple[str, dict[int, int]]]:
    """Addresses, and the processes by node."""
    if kind == "ottla":
        roles = {2: "broker", 3: "broker"}  # so that no controller falls silent
        with running_processes(folder, _NODES, roles=roles, replica_lag_time_max_ms=_LAG_MS) as ours:
            yield ours.bootstrap, {i: ours.pid(i) for i in ours.ids}
    else:
        with apache_kafka_cluster.running_cluster(folder, _NODES, replica_lag_time_max_ms=_LAG_MS) as kafka:
            yield kafka.bootstrap, {i: node.pid for i, node in kafka.nodes.items()}


@contextmanager
def silenced(processes: list[int]) -> Iterator[None]:
    try:
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)


def _create(admin: AdminClient) -> dict[str, int]:
    """By topic its min.insync.replicas; node 1 leads all, nodes 2 and 3 follow."""
    topics = {f"min{min_isr}": min_isr for min_isr in _MIN_ISRS}
    made = admin.create_topics(
        [
            NewTopic(topic, 1, replica_assignment=[[1, 2, 3]], config={"min.insync.replicas": str(min_isr)})
            for topic, min_isr in topics.items()
        ]
    )
    for future in made.values():
        future.result(PATIENCE_S)
    return topics


def _takes(bootstrap: str, topic: str) -> bool:
    """Whether the leader itself has enough in sync: others may have stood still, and tell of long ago."""
    told: dict[str | None, KafkaError | None] = {}
    producer = Producer({"bootstrap.servers": bootstrap, "acks": -1, "retries": 0, **QUIET})
    producer.produce(topic, b"a try", partition=0, on_delivery=partial(_note, told))
    return producer.flush(PATIENCE_S) == 0 and told[topic] is None


def _note(told: dict[str | None, KafkaError | None], error: KafkaError | None, message: Message) -> None:
    told[message.topic()] = error


def _read(bootstrap: str, topic: str) -> list[bytes]:
    """Without the tries."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    deadline, values = time.monotonic() + PATIENCE_S, list[bytes]()
    while len(values) < len(_SILENT) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None and message.value() != b"a try":
            values.append(message.value() or b"")
    consumer.close()
    return values


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["ottla", pytest.param("Apache Kafka", marks=pytest.mark.kafka)])
def test_followers_fall_silent_before_they_have_the_record(kind: str, tmp_path: Path) -> None:
    outcomes: dict[tuple[int, int], str] = {}
    with nodes(kind, tmp_path) as (bootstrap, pids):
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        topics = _create(admin)
        settings = {"bootstrap.servers": bootstrap, "acks": -1, "retries": 0, **QUIET}
        settings |= {"request.timeout.ms": _REQUEST_MS[kind], "socket.timeout.ms": 60_000}
        for silent in ([3], [2, 3]):
            until(lambda: _takes(bootstrap, _STRICTEST))
            told: dict[str | None, KafkaError | None] = {}
            # One for each: of a connection Kafka serves a request when the one before it is answered.
            producers = {topic: Producer(settings) for topic in topics}
            for topic, producer in producers.items():
                producer.list_topics(topic, timeout=PATIENCE_S)
            with silenced([pids[i] for i in silent]):
                for topic, producer in producers.items():
                    producer.produce(topic, b"%d silent" % len(silent), partition=0, on_delivery=partial(_note, told))
                for producer in producers.values():
                    assert producer.flush(PATIENCE_S) == 0
            for topic, min_isr in topics.items():
                error = told[topic]
                outcomes[min_isr, 3 - len(silent)] = "acknowledged" if error is None else error.name()
        until(lambda: _takes(bootstrap, _STRICTEST))
        left = {topic: _read(bootstrap, topic) for topic in topics}

    assert outcomes == {
        (min_isr, in_sync): "acknowledged" if in_sync >= min_isr else "REQUEST_TIMED_OUT"
        for in_sync, min_isr in product((2, 1), _MIN_ISRS)
    }
    assert left == {topic: _SILENT for topic in topics}
