"""The hash of a group's topics is Kafka's, and changes with whatever changes who can read what best."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from tests.metadata import given

from ottla.coordinator.group.consumer.metadata_hash import TopicHashes, topic_hash
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage

ID = UUID(int=(5 << 64) + 7)
TOPIC, BOTH = 1590092911291957052, 6262726708269006044
ONE = PartitionImage((1, 2), (UUID(int=9),) * 2, (1,), 1, 0, 0)


def image(**topics: TopicImage) -> MetadataImage:
    brokers = given.cluster(1, 2, racks=("r2", "r1")).brokers
    return replace(
        EMPTY_IMAGE,
        brokers=brokers,
        topics={topic.id: topic for topic in topics.values()},
        topic_ids={topic.name: topic.id for topic in topics.values()},
    )


def test_it_is_kafkas() -> None:
    """Made by Utils.computeTopicHash and Utils.computeGroupHash of Apache Kafka 4.3.0."""
    now = image(t=TopicImage(ID, "tö", {0: ONE, 1: replace(ONE, replicas=(2,))}), u=TopicImage(UUID(int=3), "u", {}))

    assert int.from_bytes(topic_hash(now.topics[ID], now), "little", signed=True) == TOPIC
    assert TopicHashes(lambda: now).of(["u", "tö", "not there"]) == BOTH
    assert TopicHashes(lambda: now).of(["not there"]) == 0


def test_it_is_remembered_until_the_topic_is_said_to_have_changed() -> None:
    now = [image(t=TopicImage(ID, "t", {0: ONE}))]
    hashes = TopicHashes(lambda: now[0])
    first = hashes.of(["t"])
    now[0] = image(t=TopicImage(ID, "t", {0: ONE, 1: ONE}))
    assert hashes.of(["t"]) == first

    hashes.forget(["t"])

    assert hashes.of(["t"]) != first
