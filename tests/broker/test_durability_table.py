"""The durability contract as a table: acks x min.insync.replicas x in-sync replicas x replication factor.

What is acknowledged, what is refused, and what is there when all who died are back. The same code drives three of our
brokers and three of Apache Kafka's; two more nodes keep the quorum, so that brokers may die.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing import apache_kafka_cluster
from ottla.testing.cluster import Cluster, running_cluster

FACTORS, MIN_ISRS, ACKS = (1, 2, 3), (1, 2, 3), (0, 1, -1)
NODES = 5
_WITHIN_S = 60.0


class Deployment(Protocol):
    bootstrap: str

    def end(self, node_id: int) -> None: ...
    def begin_again(self, node_id: int) -> None: ...


class Ours:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())

    def end(self, node_id: int) -> None:
        self._cluster.stop(node_id)

    def begin_again(self, node_id: int) -> None:
        self._cluster.start(node_id)


class Kafkas:
    def __init__(self, cluster: apache_kafka_cluster.ApacheKafkaCluster) -> None:
        self._cluster = cluster
        self.bootstrap = cluster.bootstrap

    def end(self, node_id: int) -> None:
        self._cluster.nodes[node_id].kill()

    def begin_again(self, node_id: int) -> None:
        self._cluster.start_again(node_id)


@contextmanager
def deployment(kind: str, folder: Path) -> Iterator[Deployment]:
    if kind == "ottla":
        roles = {i: "broker,controller" for i in range(1, NODES + 1)}
        with running_cluster(folder, NODES, roles) as ours:
            yield Ours(ours)
    else:
        with apache_kafka_cluster.running_cluster(folder, NODES) as kafkas:
            yield Kafkas(kafkas)


def name(factor: int, min_isr: int) -> str:
    return f"rf{factor}-min{min_isr}"


TOPICS = {name(factor, min_isr): (factor, min_isr) for factor, min_isr in product(FACTORS, MIN_ISRS)}


def expected(factor: int, min_isr: int, in_sync: int, acks: int) -> str:
    """Kafka's: min.insync.replicas counts for acks=all only, and no further than there are replicas."""
    return "NOT_ENOUGH_REPLICAS" if acks == -1 and in_sync < min(min_isr, factor) else "acknowledged"


def _note(told: dict[str | None, KafkaError | None], error: KafkaError | None, message: Message) -> None:
    told[message.topic()] = error


class Driver:
    def __init__(self, bootstrap: str) -> None:
        self.settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(self.settings)
        self.outcomes: dict[tuple[int, int, int, int], str] = {}
        self.acknowledged: dict[str, list[bytes]] = {topic: [] for topic in TOPICS}
        self.refused: dict[str, list[bytes]] = {topic: [] for topic in TOPICS}

    def create(self) -> None:
        """Broker 1 leads all."""
        topics = [
            NewTopic(
                topic,
                num_partitions=1,
                replica_assignment=[list(range(1, factor + 1))],
                config={"min.insync.replicas": str(min_isr)},
            )
            for topic, (factor, min_isr) in TOPICS.items()
        ]
        for future in self.admin.create_topics(topics).values():
            future.result(_WITHIN_S)

    def until_in_sync(self, most: int, leaders: tuple[int, ...] = (1,)) -> None:
        """Until each topic has as many in-sync replicas as can be, with so many of brokers 1 to 3."""
        deadline = time.monotonic() + _WITHIN_S
        wanted = {topic: min(factor, most) for topic, (factor, _) in TOPICS.items()}
        found: dict[str, int] = {}
        while found != wanted:
            assert time.monotonic() < deadline, f"in sync are {found}, wanted were {wanted}"
            known = self.admin.list_topics(timeout=_WITHIN_S).topics
            found = {
                topic: len(known[topic].partitions[0].isrs)
                for topic in TOPICS
                if topic in known and known[topic].partitions and known[topic].partitions[0].leader in leaders
            }
            time.sleep(0.1)

    def write(self, most: int) -> None:
        for acks in ACKS:
            told: dict[str | None, KafkaError | None] = {}
            producer = Producer({**self.settings, "acks": acks, "retries": 0, "linger.ms": 0})
            for topic in TOPICS:
                value = f"acks={acks} in sync={most}".encode()
                producer.produce(topic, value, partition=0, on_delivery=partial(_note, told))
            assert producer.flush(_WITHIN_S) == 0
            for topic, (factor, min_isr) in TOPICS.items():
                error = told[topic]
                outcome = "acknowledged" if error is None else error.name()
                self.outcomes[factor, min_isr, min(factor, most), acks] = outcome
                (self.refused if error else self.acknowledged)[topic].append(f"acks={acks} in sync={most}".encode())

    def read(self, topic: str) -> list[bytes]:
        consumer = Consumer({**self.settings, "group.id": "table", "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + _WITHIN_S
        count = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_WITHIN_S)[1]
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        consumer.close()
        return values


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["ottla", pytest.param("Apache Kafka", marks=[pytest.mark.kafka, pytest.mark.slow])])
def test_every_cell(kind: str, tmp_path: Path) -> None:
    with deployment(kind, tmp_path) as brokers:
        driver = Driver(brokers.bootstrap)
        driver.create()
        for most in (3, 2, 1):
            driver.until_in_sync(most)
            driver.write(most)
            if most > 1:
                brokers.end(most)

        for cell, outcome in driver.outcomes.items():
            assert outcome == expected(*cell), f"factor, min.insync.replicas, in sync, acks: {cell}"

        # The leader dies too. Who may lead then has all that was acknowledged by all (KIP-966), but perhaps not what
        # the last one took alone.
        brokers.end(1)
        for node_id in (2, 3, 1):
            brokers.begin_again(node_id)
        driver.until_in_sync(3, leaders=(1, 2, 3))
        for topic, (factor, min_isr) in TOPICS.items():
            left, acknowledged = driver.read(topic), driver.acknowledged[topic]
            kept = [value for value in acknowledged if min(factor, min_isr) == 1 or value.startswith(b"acks=-1")]
            assert [value for value in left if value in kept] == kept, topic
            assert not set(left) & set(driver.refused[topic]), topic
