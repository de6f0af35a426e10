"""Dead letters of a topic, as they are read from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ottla.cli import client
from ottla.cli.cluster_options import Cluster

PREFIX: Final = "__ottla.errors."


class Letter(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    about: dict[str, str]
    """reason, stage, pipeline, topic, partition, offset, trace: as many as are known."""
    headers: list[tuple[str, str | bytes | None]]
    """Without those that tell about the error."""

    @property
    def origin(self) -> str:
        place = [self.about[name] for name in ("topic", "partition") if name in self.about]
        return f"{'-'.join(place)}@{self.about.get('offset', '?')}" if place else "-"


def letter(message: Any) -> Letter:
    headers = list(message.headers() or [])
    about = {
        name.removeprefix(PREFIX): (value or b"").decode("utf-8", "backslashreplace")
        for name, value in headers
        if name.startswith(PREFIX)
    }
    own = [(name, value) for name, value in headers if not name.startswith(PREFIX)]
    _, timestamp = message.timestamp()
    return Letter(message.partition(), message.offset(), timestamp, message.key(), message.value(), about, own)


def all_letters(cluster: Cluster, topic: str, consumer: Any, begins: dict[int, int]) -> Iterator[Letter]:
    """Up to where the topic ends now."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    from ottla.model.errors import OttlaError

    places = client.chosen_partitions(consumer, topic, (), cluster)
    consumer.assign([TopicPartition(topic, one, begins.get(one, OFFSET_BEGINNING)) for one in places])
    left = set(places)
    while left:
        message = consumer.poll(cluster.timeout_s)
        if message is None:
            raise OttlaError(cluster.unreachable(f"neither a record nor the end of {topic} came"))
        if (error := message.error()) is None:
            yield letter(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
        else:
            raise OttlaError(f"topic {topic}: {error.str()}")
