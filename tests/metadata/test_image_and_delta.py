"""The image as the sum of its records, and what a delta says of the difference."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.delta import MetadataDelta, PartitionKey
from ottla.metadata.image import (
    DIRECTORY_MIGRATING,
    EMPTY_IMAGE,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.metadata.records.access_control_entry_record import AccessControlEntryRecord
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.begin_transaction_record import BeginTransactionRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.clear_elr_record import ClearElrRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.records.fence_broker_record import FenceBrokerRecord
from ottla.metadata.records.no_op_record import NoOpRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.metadata.records.producer_ids_record import ProducerIdsRecord
from ottla.metadata.records.register_broker_record import RegisterBrokerRecord
from ottla.metadata.records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from ottla.metadata.records.remove_topic_record import RemoveTopicRecord
from ottla.metadata.records.topic_record import TopicRecord
from ottla.metadata.records.unregister_broker_record import UnregisterBrokerRecord
from ottla.metadata.replay_error import ReplayError

A, B = UUID(int=10), UUID(int=11)
TOPIC_A = ConfigResource(ResourceType.TOPIC, "a")


def topic(topic_id: UUID, name: str) -> TopicRecord:
    return TopicRecord(topic_id=topic_id, name=name)


def partition(topic_id: UUID, number: int, leader: int = 1) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number, topic_id=topic_id, replicas=(1, 2), isr=(1, 2), removing_replicas=(), adding_replicas=(),
        leader=leader, leader_epoch=0, partition_epoch=0, directories=(UUID(int=7), UUID(int=8)),
    )  # fmt: skip


def config(name: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=name, name=key, value=value)


def broker(broker_id: int, epoch: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id, incarnation_id=UUID(int=epoch + 1), broker_epoch=epoch, end_points=(), features=(),
        rack=None, log_dirs=(UUID(int=500 + broker_id),),
    )  # fmt: skip


def replayed(image: MetadataImage, *records: MetadataRecord) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta, delta.apply(image.offset + len(records), 1)


TWO_TOPICS = replayed(
    EMPTY_IMAGE, topic(A, "a"), partition(A, 0), partition(A, 1), topic(B, "b"), partition(B, 0), config("a", "k", "v")
)[1]


@st.composite
def histories(draw: st.DrawFn) -> list[MetadataRecord]:
    """Records that make sense one after the other."""
    records: list[MetadataRecord] = []
    topics: dict[str, tuple[UUID, int]] = {}
    brokers: dict[int, int] = {}
    next_producer_id = 0

    def create() -> None:
        name = draw(st.sampled_from("abcd"))
        if name not in topics:
            topic_id = UUID(int=1000 + len(records))
            topics[name] = (topic_id, 0)
            records.append(topic(topic_id, name))

    def remove() -> None:
        if topics:
            topic_id, _ = topics.pop(draw(st.sampled_from(sorted(topics))))
            records.append(RemoveTopicRecord(topic_id=topic_id))

    def add_partition() -> None:
        if topics:
            name = draw(st.sampled_from(sorted(topics)))
            topic_id, count = topics[name]
            topics[name] = (topic_id, count + 1)
            records.append(partition(topic_id, count))

    def change_partition() -> None:
        if candidates := [(topic_id, count) for topic_id, count in topics.values() if count]:
            topic_id, count = draw(st.sampled_from(candidates))
            records.append(
                PartitionChangeRecord(
                    partition_id=draw(st.integers(0, count - 1)),
                    topic_id=topic_id,
                    leader=draw(st.sampled_from([-2, -1, 1, 2])),
                    isr=draw(st.sampled_from([None, (1,), (1, 2)])),
                    eligible_leader_replicas=draw(st.sampled_from([None, (), (2,)])),
                )
            )

    def set_config() -> None:
        value = draw(st.sampled_from([None, "1", "2"]))
        records.append(config(draw(st.sampled_from("abcd")), draw(st.sampled_from("kl")), value))

    def register() -> None:
        broker_id = draw(st.integers(1, 3))
        brokers[broker_id] = len(records)
        records.append(broker(broker_id, len(records)))

    def change_broker() -> None:
        if brokers:
            broker_id = draw(st.sampled_from(sorted(brokers)))
            records.append(
                BrokerRegistrationChangeRecord(
                    broker_id=broker_id, broker_epoch=brokers[broker_id], fenced=draw(st.sampled_from([-1, 0, 1]))
                )
            )

    def unregister() -> None:
        if brokers:
            broker_id = draw(st.sampled_from(sorted(brokers)))
            records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=brokers.pop(broker_id)))

    def feature() -> None:
        level = draw(st.integers(0, 3))
        records.append(FeatureLevelRecord(name=draw(st.sampled_from(["x", "y"])), feature_level=level))

    def producer_ids() -> None:
        nonlocal next_producer_id
        next_producer_id += 1000
        records.append(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=next_producer_id))

    def clear_elr() -> None:
        records.append(ClearElrRecord(topic_name=draw(st.sampled_from(["", *sorted(topics)]))))

    def nothing() -> None:
        records.append(NoOpRecord())

    steps: list[Callable[[], None]] = [
        create, remove, add_partition, add_partition, change_partition, change_partition, set_config, register,
        change_broker, unregister, feature, producer_ids, clear_elr, nothing,
    ]  # fmt: skip
    for _ in range(draw(st.integers(0, 40))):
        draw(st.sampled_from(steps))()
    return records


@given(histories(), st.integers(0, 40))
@settings(max_examples=100)
def test_records_add_up_the_same_however_they_are_cut_into_deltas(history: list[MetadataRecord], cut: int) -> None:
    _, at_once = replayed(EMPTY_IMAGE, *history)
    one_by_one = EMPTY_IMAGE
    for record in history:
        _, one_by_one = replayed(one_by_one, record)
    _, half = replayed(EMPTY_IMAGE, *history[:cut])
    _, in_two = replayed(half, *history[cut:])

    assert one_by_one == replace(at_once, epoch=one_by_one.epoch)
    assert in_two == at_once


@given(histories(), st.integers(0, 40))
@settings(max_examples=100)
def test_a_delta_names_exactly_what_differs(history: list[MetadataRecord], cut: int) -> None:
    _, before = replayed(EMPTY_IMAGE, *history[:cut])
    copy = deep_copy(before)

    delta, after = replayed(before, *history[cut:])

    assert before == copy, "the base of a delta was written to"
    assert set(delta.created_topics) == set(after.topics) - set(before.topics)
    assert set(delta.deleted_topics) == set(before.topics) - set(after.topics)
    assert set(delta.changed_partitions) >= differing_partitions(before, after)
    assert all(after.partition(*key) is not None for key in delta.changed_partitions)
    assert set(delta.changed_configs) >= differing(before.configs, after.configs)
    assert set(delta.changed_brokers) >= differing(before.brokers, after.brokers)
    assert set(delta.changed_features) >= differing(before.features, after.features)


def deep_copy(image: MetadataImage) -> MetadataImage:
    return replace(
        image,
        features=dict(image.features),
        brokers=dict(image.brokers),
        topics={key: replace(value, partitions=dict(value.partitions)) for key, value in image.topics.items()},
        topic_ids=dict(image.topic_ids),
        configs={key: dict(value) for key, value in image.configs.items()},
        held=dict(image.held),
    )


def differing(before: object, after: object) -> set[object]:
    assert isinstance(before, dict) and isinstance(after, dict)
    return {key for key in (*before, *after) if before.get(key) != after.get(key)}


def differing_partitions(before: MetadataImage, after: MetadataImage) -> set[PartitionKey]:
    return {
        PartitionKey(topic_id, number)
        for topic_id, after_topic in after.topics.items()
        for number, now in after_topic.partitions.items()
        if before.partition(topic_id, number) != now
    }


def test_what_no_record_touched_is_shared_with_the_image_before() -> None:
    _, image = replayed(TWO_TOPICS, PartitionChangeRecord(partition_id=0, topic_id=A, leader=2))

    assert image.topics[B] is TWO_TOPICS.topics[B]
    assert image.configs is TWO_TOPICS.configs
    assert image.brokers is TWO_TOPICS.brokers
    assert TWO_TOPICS.topics[A].partitions[0].leader == 1


def test_naming_a_leader_bumps_its_epoch_even_if_it_led_already() -> None:
    _, image = replayed(
        TWO_TOPICS,
        PartitionChangeRecord(partition_id=0, topic_id=A, leader=1),
        PartitionChangeRecord(partition_id=0, topic_id=A, isr=(1,)),
    )

    changed = image.topics[A].partitions[0]
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch, changed.isr) == (1, 1, 2, (1,))


def test_a_deleted_topic_takes_its_configs_along() -> None:
    delta, image = replayed(TWO_TOPICS, RemoveTopicRecord(topic_id=A))

    assert delta.deleted_topics == {A: TWO_TOPICS.topics[A]}
    assert list(delta.changed_configs) == [TOPIC_A]
    assert (image.topic("a"), image.topic_config("a"), list(image.topics)) == (None, {}, [B])


def test_a_topic_that_came_and_went_in_one_delta_is_not_named() -> None:
    c = UUID(int=12)
    delta, image = replayed(TWO_TOPICS, topic(c, "c"), partition(c, 0), RemoveTopicRecord(topic_id=c))

    assert (delta.created_topics, delta.deleted_topics, delta.changed_partitions) == ({}, {}, {})
    assert image == replace(TWO_TOPICS, offset=image.offset)


def test_a_topic_deleted_and_created_again_is_both() -> None:
    c = UUID(int=12)
    delta, _ = replayed(TWO_TOPICS, RemoveTopicRecord(topic_id=A), topic(c, "a"), partition(c, 0))

    assert list(delta.deleted_topics) == [A]
    assert delta.created_topics == {c: "a"}
    assert list(delta.changed_partitions) == [PartitionKey(c, 0)]


def test_the_deleted_image_is_that_of_before_the_delta() -> None:
    delta, _ = replayed(
        TWO_TOPICS, PartitionChangeRecord(partition_id=0, topic_id=A, leader=2), RemoveTopicRecord(topic_id=A)
    )

    assert delta.deleted_topics[A].partitions[0].leader == 1
    assert delta.changed_partitions == {}


def test_partition_records_of_old_clusters_have_migrating_directories() -> None:
    _, image = replayed(TWO_TOPICS, replace(partition(A, 2), directories=()))

    assert image.topics[A].partitions[2].directories == (DIRECTORY_MIGRATING, DIRECTORY_MIGRATING)


def test_records_of_features_to_come_are_held_until_removed() -> None:
    acl = AccessControlEntryRecord(
        id=UUID(int=3), resource_type=2, resource_name="a", pattern_type=3, principal="User:x", host="*", operation=3,
        permission_type=3,
    )  # fmt: skip
    _, holding = replayed(TWO_TOPICS, acl)
    _, removed = replayed(holding, RemoveAccessControlEntryRecord(id=UUID(int=3)))

    assert list(holding.held.values()) == [acl]
    assert removed.held == {}


def test_everything_is_named_by_the_delta_of_a_first_image() -> None:
    delta = MetadataDelta.everything(TWO_TOPICS)

    assert delta.created_topics == {A: "a", B: "b"}
    assert list(delta.changed_partitions) == [PartitionKey(A, 0), PartitionKey(A, 1), PartitionKey(B, 0)]
    assert list(delta.changed_configs) == [TOPIC_A]


def test_an_image_can_be_asked() -> None:
    found = TWO_TOPICS.partition(A, 1)

    assert isinstance(TWO_TOPICS.topic("a"), TopicImage)
    assert isinstance(found, PartitionImage)
    assert found.directory_of(2) == UUID(int=8)
    assert TWO_TOPICS.topic("zzz") is None
    assert TWO_TOPICS.partition(A, 9) is None
    assert TWO_TOPICS.partition(UUID(int=99), 0) is None


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(topic(A, "other"), id="a topic id that is taken"),
        pytest.param(topic(UUID(int=99), "a"), id="a topic name that is taken"),
        pytest.param(RemoveTopicRecord(topic_id=UUID(int=99)), id="deletion of an unknown topic"),
        pytest.param(partition(UUID(int=99), 0), id="a partition of an unknown topic"),
        pytest.param(PartitionChangeRecord(partition_id=5, topic_id=A), id="a change of an unknown partition"),
        pytest.param(FenceBrokerRecord(id=9, epoch=1), id="an unknown broker"),
        pytest.param(ClearElrRecord(topic_name="zzz"), id="ELR of an unknown topic"),
        pytest.param(BeginTransactionRecord(name="x"), id="a transaction that was not resolved"),
    ],
)
def test_a_record_that_contradicts_the_image_is_an_error(record: MetadataRecord) -> None:
    with pytest.raises(ReplayError):
        MetadataDelta(TWO_TOPICS).replay(record)


def test_a_change_of_an_earlier_incarnation_of_a_broker_is_an_error() -> None:
    _, image = replayed(EMPTY_IMAGE, broker(1, epoch=5))

    with pytest.raises(ReplayError, match="epoch 4"):
        MetadataDelta(image).replay(FenceBrokerRecord(id=1, epoch=4))


def test_producer_ids_never_go_back() -> None:
    _, image = replayed(EMPTY_IMAGE, ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=2000))

    with pytest.raises(ReplayError, match="go back"):
        MetadataDelta(image).replay(ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000))
