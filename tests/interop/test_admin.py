"""Administration through librdkafka's AdminClient, and that what it changes holds for its other clients at once."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.interop.clients import WITHIN_S
from tests.interop.conftest import NewTopic as MakeTopic

from ottla.testing.process import NodeProcess

Operation = AlterConfigOpType


@pytest.fixture
def admin(node: NodeProcess) -> Any:
    return AdminClient({"bootstrap.servers": node.address})


def alter(admin: Any, kind: ResourceType, name: str, *changes: tuple[str, AlterConfigOpType, str | None]) -> None:
    entries = [ConfigEntry(key, value, incremental_operation=op) for key, op, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(WITHIN_S)


def configs(admin: Any, kind: ResourceType, name: str) -> dict[str, Any]:
    resource = ConfigResource(kind, name)
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(WITHIN_S)
    return found


def test_a_topics_configs_are_changed_bit_by_bit(admin: Any, new_topic: MakeTopic) -> None:
    topic = new_topic(segment_ms=9999)

    alter(
        admin, ResourceType.TOPIC, topic, ("retention.ms", Operation.SET, "12345"),
        ("segment.ms", Operation.DELETE, None), ("cleanup.policy", Operation.APPEND, "compact"),
    )  # fmt: skip

    now = configs(admin, ResourceType.TOPIC, topic)
    assert (now["retention.ms"].value, now["retention.ms"].source) == ("12345", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert (now["segment.ms"].value, now["segment.ms"].is_default) == ("604800000", True)
    assert now["cleanup.policy"].value == "delete,compact"


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_the_old_way_replaces_them_all(admin: Any, new_topic: MakeTopic) -> None:
    topic = new_topic(retention_ms=5555)

    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.ms": "7777"})
    admin.alter_configs([resource])[resource].result(WITHIN_S)

    now = configs(admin, ResourceType.TOPIC, topic)
    assert now["segment.ms"].value == "7777"
    assert now["retention.ms"].is_default


def test_a_wrong_value_is_told_with_its_reason(admin: Any, new_topic: MakeTopic) -> None:
    with pytest.raises(KafkaException) as caught:
        alter(admin, ResourceType.TOPIC, new_topic(), ("retention.ms", Operation.SET, "soon"))

    error = caught.value.args[0]
    assert error.code() == KafkaError.INVALID_CONFIG
    assert "Invalid value soon for configuration retention.ms" in error.str()


def test_what_needs_a_restart_is_refused(admin: Any) -> None:
    with pytest.raises(KafkaException) as caught:
        alter(admin, ResourceType.BROKER, "1", ("num.partitions", Operation.SET, "3"))

    error = caught.value.args[0]
    assert error.code() == KafkaError.INVALID_REQUEST
    assert "Cannot update these configs dynamically: [num.partitions]" in error.str()


def test_a_smaller_limit_for_the_broker_stops_a_producer_at_once(
    admin: Any, node: NodeProcess, new_topic: MakeTopic
) -> None:
    topic = new_topic()
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": node.address, "enable.idempotence": False})

    def send() -> None:
        producer.produce(topic, b"x" * 5000, on_delivery=lambda error, _: errors.append(error and error.code()))
        producer.flush(WITHIN_S)

    send()
    alter(admin, ResourceType.BROKER, "1", ("message.max.bytes", Operation.SET, "1000"))
    try:
        send()
        now = configs(admin, ResourceType.TOPIC, topic)["max.message.bytes"]
        assert (now.value, now.source) == ("1000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    finally:
        alter(admin, ResourceType.BROKER, "1", ("message.max.bytes", Operation.DELETE, None))
    send()

    assert errors == [None, KafkaError.MSG_SIZE_TOO_LARGE, None]


def test_a_topic_grows(admin: Any, node: NodeProcess, new_topic: MakeTopic) -> None:
    topic = new_topic(partitions=2)

    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WITHIN_S)

    assert len(admin.list_topics(topic, WITHIN_S).topics[topic].partitions) == 5
    places: list[int | None] = []
    producer = Producer({"bootstrap.servers": node.address})
    for number in range(5):
        producer.produce(topic, b"x", partition=number, on_delivery=lambda _, told: places.append(told.partition()))
    producer.flush(WITHIN_S)
    assert set(places) == {0, 1, 2, 3, 4}
    with pytest.raises(KafkaException) as caught:
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WITHIN_S)
    assert caught.value.args[0].code() == KafkaError.INVALID_PARTITIONS


def test_topics_are_checked_without_being_made(admin: Any) -> None:
    wanted = NewTopic("only-checked", 3, 1, config={"retention.ms": "5"})

    admin.create_topics([wanted], validate_only=True)["only-checked"].result(WITHIN_S)

    assert "only-checked" not in admin.list_topics(timeout=WITHIN_S).topics


def test_replicas_may_be_given(admin: Any) -> None:
    given = NewTopic("placed", 2, replica_assignment=[[1], [1]])
    wrong = NewTopic("misplaced", 1, replica_assignment=[[7]])

    outcomes = admin.create_topics([given, wrong])

    outcomes["placed"].result(WITHIN_S)
    with pytest.raises(KafkaException) as caught:
        outcomes["misplaced"].result(WITHIN_S)
    assert caught.value.args[0].code() == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_the_only_replica_need_not_be_elected(admin: Any, new_topic: MakeTopic) -> None:
    partition = TopicPartition(new_topic(), 0)

    outcome = admin.elect_leaders(ElectionType.PREFERRED, [partition]).result(WITHIN_S)

    assert outcome[partition].code() == KafkaError.ELECTION_NOT_NEEDED


def test_topics_and_cluster_are_described(admin: Any, new_topic: MakeTopic) -> None:
    topic = new_topic(partitions=3)

    described = admin.describe_topics(TopicCollection([topic]))[topic].result(WITHIN_S)
    cluster = admin.describe_cluster().result(WITHIN_S)
    offsets = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})  # type: ignore[no-untyped-call]

    assert [row.leader.id for row in described.partitions] == [1, 1, 1]
    assert [each.id for each in cluster.nodes] == [1]
    assert [future.result(WITHIN_S).offset for future in offsets.values()] == [0]
