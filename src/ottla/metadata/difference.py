"""What is different between two images that no record leads from one to the other: the second is a snapshot's."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, TypeVar

from ottla.metadata.delta import MetadataDelta, PartitionKey
from ottla.metadata.image import MetadataImage

K = TypeVar("K", bound=Hashable)


def difference(before: MetadataImage, after: MetadataImage) -> MetadataDelta:
    """A delta to be published with the second image. Nothing is to be replayed or applied on top of it."""
    delta = MetadataDelta(before)
    for topic_id, topic in before.topics.items():
        if topic_id not in after.topics:
            delta.deleted_topics[topic_id] = topic
    for topic_id, topic in after.topics.items():
        known = before.topics.get(topic_id)
        if known is None:
            delta.created_topics[topic_id] = topic.name
        for number in _changed(known.partitions if known else {}, topic.partitions):
            delta.changed_partitions[PartitionKey(topic_id, number)] = None
    delta.changed_configs.update(dict.fromkeys(_changed(before.configs, after.configs)))
    delta.changed_brokers.update(dict.fromkeys(_changed(before.brokers, after.brokers)))
    delta.changed_controllers.update(dict.fromkeys(_changed(before.controllers, after.controllers)))
    delta.changed_features.update(dict.fromkeys(_changed(before.features, after.features)))
    delta.next_producer_id = after.next_producer_id
    return delta


def _changed(before: Mapping[K, Any], after: Mapping[K, Any]) -> Iterator[K]:
    for key, value in after.items():
        if before.get(key) != value:
            yield key
    for key in before:
        if key not in after:
            yield key
