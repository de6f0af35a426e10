"""Topics and records for tests of Spark."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from ottla.testing.node import RunningNode

_numbers = count()


def new_topic(node: RunningNode, partitions: int = 1, name: str | None = None, **configs: str) -> str:
    name = name or f"events-{next(_numbers)}"
    given = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, partitions, 1, config=given)])[name].result(30)
    return name


def delete_topic(node: RunningNode, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.delete_topics([name])[name].result(30)


def grow_topic(node: RunningNode, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)


def write(node: RunningNode, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
    """`more` is for librdkafka's produce, of each record: key, timestamp, headers."""
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 5})
    for value in values:
        producer.produce(topic, value, partition=partition, **more)
        producer.poll(0)
    assert producer.flush(30) == 0
