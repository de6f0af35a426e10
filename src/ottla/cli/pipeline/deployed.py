"""What commands read from the service's topics, and write to them."""

from __future__ import annotations

from typing import Any

from ottla.cli import client
from ottla.cli.cluster_options import Cluster
from ottla.model.errors import OttlaError


def newest(cluster: Cluster, topic: str) -> dict[str, bytes]:
    """The newest value of each key; nothing if the topic is not there."""
    found: dict[str, bytes] = {}
    for message in all_messages(cluster, topic):
        name = (message.key() or b"").decode()
        if message.value() is None:
            found.pop(name, None)
        else:
            found[name] = message.value()
    return found


def all_messages(cluster: Cluster, topic: str) -> list[Any]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    client.check_reachable(cluster)
    consumer = client.make(Consumer, client.settings(cluster, client.READING))
    found = []
    try:
        with client.told_in_a_line():
            left = set(client.partitions_of(consumer, topic, cluster))
            consumer.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in left])
            while left:
                message = consumer.poll(cluster.timeout_s)
                if message is None:
                    raise OttlaError(cluster.unreachable(f"neither a record nor the end of {topic} came"))
                if (error := message.error()) is None:
                    found.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise OttlaError(f"topic {topic}: {error.str()}")
    finally:
        consumer.close()
    return found


def write(cluster: Cluster, topic: str, name: str, value: bytes | None) -> None:
    from confluent_kafka import Producer

    failed: list[str] = []
    producer = client.make(Producer, client.settings(cluster, (("acks", "all"),)))
    producer.produce(topic, value, name, on_delivery=lambda error, _: failed.append(error.str()) if error else None)
    left = producer.flush(cluster.timeout_s)
    if left or failed:
        raise OttlaError(f"cannot write to topic {topic}: {failed[0] if failed else 'no answer in time'}")
