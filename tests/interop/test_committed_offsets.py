"""Real clients that take their partitions themselves, and keep how far they have come in the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.interop.clients import WITHIN_S
from tests.interop.conftest import NewTopic, create_topic
from tests.waiting import attempts

from ottla.testing.process import NodeProcess, running_process

_numbers = count()


@pytest.fixture
def group() -> str:
    return f"committing-{next(_numbers)}"


def _confluent(address: str, group: str, topic: str, offset: int) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=WITHIN_S)
        return int(found.offset)
    finally:
        consumer.close()


def _kafka_python(address: str, group: str, topic: str, offset: int) -> int:
    import kafka
    from kafka.structs import OffsetAndMetadata

    consumer = kafka.KafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
    try:
        partition = kafka.TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.commit({partition: OffsetAndMetadata(offset, "", -1)})
        return int(consumer.committed(partition))
    finally:
        consumer.close()


def _aiokafka(address: str, group: str, topic: str, offset: int) -> int:
    import aiokafka

    async def run() -> int:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
        await consumer.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            await consumer.commit({partition: offset})
            return int(await consumer.committed(partition))
        finally:
            await consumer.stop()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "client", [_confluent, _kafka_python, _aiokafka], ids=lambda client: client.__name__.strip("_")
)
def test_a_client_commits_and_finds_it_again(
    client: Callable[[str, str, str, int], int], node: NodeProcess, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic()

    assert client(node.address, group, topic, 7) == 7
    assert client(node.address, group, topic, 3) == 3


def read_all(address: str, group: str, topic: str, wanted: int, **more: Any) -> list[bytes]:
    """By a member of the group, which commits what it has read."""
    from confluent_kafka import Consumer

    given = {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "log_level": 2}
    consumer = Consumer({**given, "enable.auto.commit": False, **more})
    values: list[bytes] = []
    try:
        consumer.subscribe([topic])
        for _ in attempts(lambda: values):
            if len(values) == wanted:
                break
            for message in consumer.consume(wanted - len(values), timeout=0.2):
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def test_a_member_goes_on_where_the_last_one_was(node: NodeProcess, new_topic: NewTopic, group: str) -> None:
    from confluent_kafka import Producer

    topic = new_topic()
    producer = Producer({"bootstrap.servers": node.address})
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    producer.flush(WITHIN_S)

    assert read_all(node.address, group, topic, 4) == [b"%d" % number for number in range(4)]
    assert read_all(node.address, group, topic, 6) == [b"%d" % number for number in range(4, 10)]


def test_what_was_committed_survives_kill_9(tmp_path: Any) -> None:
    from confluent_kafka import Consumer, TopicPartition

    with running_process(tmp_path) as node:
        topic = create_topic(node.address, "orders", 2)
        given = {"bootstrap.servers": node.address, "enable.auto.commit": False, "reconnect.backoff.max.ms": 200}
        consumers = {
            name: Consumer({**given, "group.id": name, "log_level": 2}) for name in ("billing", "shipping", "audit")
        }
        try:
            for life in range(1, 4):
                expected = {}
                for number, (name, consumer) in enumerate(consumers.items()):
                    for offset in range(life * 100 + number, life * 100 + number + 20):
                        rows = [TopicPartition(topic, 0, offset), TopicPartition(topic, 1, offset + 1, "so far")]
                        consumer.commit(offsets=rows, asynchronous=False)
                    expected[name] = [offset, offset + 1]
                node.kill()
                node.start()
                for name, consumer in consumers.items():
                    found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=WITHIN_S)
                    assert [row.offset for row in found] == expected[name]
        finally:
            for consumer in consumers.values():
                consumer.close()
