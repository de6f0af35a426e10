"""Reads a topic from its beginning to where it ends now, and keeps the newest value of each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.cli import client
from ottla.cli.cluster_options import Cluster
from ottla.cli.interrupts import put_off

_BATCH: Final = 1000
_COMMITTED: Final = ("isolation.level", "read_committed")


def read_table(cluster: Cluster, topic: str, only: Sequence[int], key: bytes | None) -> list[dict[str, Any]]:
    from confluent_kafka import Consumer

    consumer = client.make(Consumer, client.settings(cluster, (*client.READING, _COMMITTED)))
    try:
        with client.told_in_a_line():
            return _read(consumer, cluster, topic, only, key)
    finally:
        consumer.close()


def _read(consumer: Any, cluster: Cluster, topic: str, only: Sequence[int], key: bytes | None) -> list[dict[str, Any]]:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

    left = set(client.chosen_partitions(consumer, topic, only, cluster))
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
    table: dict[tuple[bytes, int], dict[str, Any]] = {}
    while left:
        with put_off:
            messages = consumer.consume(_BATCH, timeout=0.2)
        for message in messages:
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                left.discard(message.partition())
            elif message.key() is not None and (key is None or message.key() == key):
                _note(table, message)
    return [table[place] for place in sorted(table)]


def _note(table: dict[tuple[bytes, int], dict[str, Any]], message: Any) -> None:
    place = message.key(), message.partition()
    if message.value() is None:
        table.pop(place, None)
        return
    kind, timestamp = message.timestamp()
    table[place] = {
        "key": message.key(),
        "value": message.value(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp if kind else None,
    }
