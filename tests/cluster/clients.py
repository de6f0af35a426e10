"""What tests of a cluster do with a client, said once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.waiting import PATIENCE_S, until

from ottla.testing.process_cluster import ProcessCluster

QUIET: dict[str, Any] = {
    "log_level": 2, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "socket.timeout.ms": 10_000,
}  # fmt: skip


def a_name(what: str) -> str:
    """The cluster is shared: what a test makes has a name of its own."""
    return f"{what}-{uuid4().hex[:8]}"


def admin(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, **QUIET})


def create_topic(cluster: ProcessCluster, partitions: int = 3, **configs: str) -> str:
    name = a_name("topic")
    given = {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name, partitions, 3, config=given)
    client = admin(cluster.bootstrap)
    client.create_topics([new], operation_timeout=PATIENCE_S)[name].result(PATIENCE_S)
    until(lambda: len(leaders(cluster, name)) == partitions and all(leader > 0 for leader in leaders(cluster, name)))
    return name


def leaders(cluster: ProcessCluster, topic: str) -> list[int]:
    try:
        found = admin(cluster.bootstrap).list_topics(topic, timeout=10).topics[topic]
    except KafkaException:
        return []
    return [partition.leader for _, partition in sorted(found.partitions.items())]


def isr_is_full(cluster: ProcessCluster, topic: str) -> bool:
    try:
        found = admin(cluster.bootstrap).list_topics(topic, timeout=10).topics[topic]
    except KafkaException:
        return False
    return all(len(partition.isrs) == len(partition.replicas) for partition in found.partitions.values())


def produce(address: str, topic: str, values: Iterable[bytes]) -> None:
    """Returns when all are acknowledged by all in-sync replicas; none may fail."""
    failed: list[str] = []
    producer = Producer({"bootstrap.servers": address, "acks": "all", "enable.idempotence": True, **QUIET})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    left = producer.flush(PATIENCE_S)
    assert not left and not failed, (left, failed[:3])


def consume_all(address: str, topic: str, expected: int) -> list[bytes]:
    """Without a group, from the beginning, until as many as expected are there, and a look for more."""
    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": a_name("reader"), **QUIET}
    consumer = Consumer(settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < expected and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
    found += [message.value() or b"" for message in consumer.consume(10, 0.3)]
    consumer.close()
    return found
