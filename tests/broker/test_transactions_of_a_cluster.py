"""Transactions over three real nodes: all of one or nothing, whoever goes meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.waiting import until

from ottla.testing.cluster import Cluster, running_cluster

TOPIC, NAME, PARTITIONS = "orders", "transfer", 3
BROKERS = {i: "broker,controller" for i in (1, 2, 3)}
FAST: dict[str, Any] = {
    "replica_lag_time_max_ms": 1000,
    "replica_fetch_backoff_ms": 50,
    "broker_session_timeout_ms": 3000,
    "broker_heartbeat_interval_ms": 300,
    "transaction_state_log_num_partitions": 3,
    "transaction_abort_timed_out_transaction_cleanup_interval_ms": 200,
}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, 3, BROKERS, **FAST) as cluster:
        yield cluster


def bootstrap(cluster: Cluster) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())


def new_topic(cluster: Cluster) -> None:
    """Partitions are led by different nodes."""
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster)})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)]).values():
        future.result()


def producer_of(cluster: Cluster, timeout_ms: int = 20_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap(cluster),
            "transactional.id": NAME,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    return producer


def write(producer: Producer, number: int) -> None:
    """The same number to every partition, in one transaction; again until it is known to be committed."""
    deadline = time.monotonic() + 90
    while True:
        assert time.monotonic() < deadline
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, str(number).encode(), partition=partition)
        try:
            _commit(producer, deadline)
            return
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _abort(producer, deadline)


def _commit(producer: Producer, deadline: float) -> None:
    while True:
        try:
            producer.commit_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def _abort(producer: Producer, deadline: float) -> None:
    while True:
        try:
            producer.abort_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise


def read(cluster: Cluster, level: str) -> list[list[int]]:
    """What is in each partition, up to where such a reader gets."""
    found: list[list[int]] = []
    for partition in range(PARTITIONS):
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap(cluster),
                "group.id": "reader",
                "isolation.level": level,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        numbers: list[int] = []
        deadline = time.monotonic() + 60
        while (message := consumer.poll(1)) is None or message.error() is None:
            assert time.monotonic() < deadline
            if message is not None:
                numbers.append(int(message.value() or b""))
        consumer.close()
        found.append(numbers)
    return found


def coordinator(cluster: Cluster) -> int:
    def look() -> int:
        led = [
            i
            for i, node in cluster.nodes.items()
            if any(shard.machine.transactions.get(NAME) for shard in node.txns.runtime.active)
        ]
        return led[0] if len(led) == 1 else 0

    return cluster.until(look)


def test_a_transaction_reaches_partitions_of_all_nodes(three: Cluster) -> None:
    new_topic(three)
    producer = producer_of(three)
    for number in range(6):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, str(number).encode(), partition=partition)
        producer.flush(30)
        if number % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)

    until(lambda: read(three, "read_committed") == [[0, 1, 3, 4]] * PARTITIONS)
    assert read(three, "read_uncommitted") == [list(range(6))] * PARTITIONS


def test_who_coordinates_goes_and_the_next_goes_on(three: Cluster) -> None:
    new_topic(three)
    producer = producer_of(three)
    for number in range(12):
        write(producer, number)
        if number in (3, 7):
            gone = coordinator(three)
            three.stop(gone)
            write(producer, 100 + number)
            three.start(gone)

    expected = sorted([*range(12), 103, 107])
    until(lambda: [sorted(numbers) for numbers in read(three, "read_committed")] == [expected] * PARTITIONS)


def test_what_a_dead_producer_left_open_is_aborted_by_the_next_coordinator(three: Cluster) -> None:
    new_topic(three)
    producer = producer_of(three, timeout_ms=3000)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"7", partition=partition)
    producer.flush(30)
    three.stop(coordinator(three))

    until(lambda: read(three, "read_committed") == [[]] * PARTITIONS and _stable(three))


def _stable(cluster: Cluster) -> bool:
    """Whether no transaction is open anywhere."""

    def look() -> bool:
        led = [
            partition
            for node in cluster.nodes.values()
            for key, partition in node.replicas.by_name.items()
            if key[0] == TOPIC and partition.is_leader
        ]
        return len(led) == PARTITIONS and all(each.last_stable_offset == each.log.end_offset for each in led)

    return cluster.on_loop(look)
