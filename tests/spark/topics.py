"""Topics and records for tests of Spark."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.waiting import until

_numbers = count()


class Broker(Protocol):
    """Ours, or Apache Kafka."""

    @property
    def address(self) -> str: ...


def new_topic(node: Broker, partitions: int = 1, name: str | None = None, **configs: str) -> str:
    name = name or f"events-{next(_numbers)}"
    given = {key.replace("_", "."): value for key, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_topics([NewTopic(name, partitions, 1, config=given)])[name].result(30)
    return name


def delete_topic(node: Broker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.delete_topics([name])[name].result(30)


def delete_records(node: Broker, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    place = TopicPartition(topic, partition, before)
    admin.delete_records([place])[place].result(30)


def grow_topic(node: Broker, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": node.address})
    admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
    until(lambda: len(admin.list_topics(name, 30).topics[name].partitions) == partitions)


def write(node: Broker, topic: str, values: Iterable[bytes | None], partition: int = 0, **more: Any) -> None:
    """`more` is for librdkafka's produce, of each record: key, timestamp, headers."""
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 5})
    told: list[KafkaError | None] = []
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: told.append(error), **more)
        producer.poll(0)
    assert producer.flush(30) == 0 and not any(told), told


def committed(node: Broker, topic: str) -> list[bytes]:
    """The values that a consumer with read_committed finds, partition by partition."""
    return [bytes(message.value()) for message in messages(node, topic, "read_committed")]


def messages(node: Broker, topic: str, isolation: str = "read_uncommitted") -> list[Any]:
    consumer = Consumer(
        {
            "bootstrap.servers": node.address,
            "group.id": "tests",
            "isolation.level": isolation,
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",
        }
    )
    found: list[Any] = []
    for partition in sorted(consumer.list_topics(topic, 30).topics[topic].partitions):
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "neither a record nor the end came"
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF
                break
            found.append(message)
    consumer.close()
    return found


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died before it wrote down that the last batch was done."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in (last, last.with_name(f".{last.name}.crc")):
        file.unlink(missing_ok=True)
