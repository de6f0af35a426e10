from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.broker.apis.asking import DELETE_TOPICS, ask, create, metadata, topic_to_create
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.testing.node import running_node

IN_TIME = timedelta(seconds=60)


def delete(address: str, *topics: tuple[str | None, UUID | None], within: timedelta = IN_TIME) -> dict[Any, ErrorCode]:
    asked = [{"name": name, "topic_id": topic_id} for name, topic_id in topics]
    answer = ask(address, DELETE_TOPICS, 6, topics=asked, timeout=within)
    return {(row.name, row.topic_id): row.error_code for row in answer.responses}


def test_a_new_topic_is_told_with_all_it_got(address: str) -> None:
    answer = create(address, topic_to_create("orders", 3, configs={"retention.ms": "77"}))

    (topic,) = answer.topics
    configs = {config.name: config for config in topic.configs}
    assert (topic.error_code, topic.num_partitions, topic.replication_factor) == (ErrorCode.none, 3, 1)
    assert topic.topic_id == metadata(address, "orders").topics[0].topic_id
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("77", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("delete", 5)
    assert list(configs) == sorted(configs)


@pytest.mark.parametrize("version", [2, 4, 7])
def test_minus_one_takes_the_defaults_of_the_cluster(address: str, version: int) -> None:
    name = f"defaults-{version}"

    create(address, topic_to_create(name, -1, -1), version=version)

    assert len(metadata(address, name).topics[0].partitions) == 2


def test_each_topic_stands_or_falls_alone(address: str) -> None:
    answer = create(
        address,
        topic_to_create("stands"),
        topic_to_create("twice"),
        topic_to_create("twice"),
        topic_to_create("bad name"),
        topic_to_create("unknown-config", configs={"no.such": "1"}),
        topic_to_create("bad-config", configs={"retention.ms": "soon"}),
        topic_to_create("too-many-replicas", 1, 3),
        topic_to_create("no-partitions", 0),
        topic_to_create("unknown-broker", -1, -1, assignments=[{"partition_index": 0, "broker_ids": [9]}]),
        topic_to_create("__cluster_metadata"),
    )

    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "stands": ErrorCode.none,
        "twice": ErrorCode.invalid_request,
        "bad name": ErrorCode.invalid_topic_exception,
        "unknown-config": ErrorCode.invalid_config,
        "bad-config": ErrorCode.invalid_config,
        "too-many-replicas": ErrorCode.invalid_replication_factor,
        "no-partitions": ErrorCode.invalid_partitions,
        "unknown-broker": ErrorCode.invalid_replica_assignment,
        "__cluster_metadata": ErrorCode.invalid_request,
    }


def test_validation_alone_creates_nothing(address: str) -> None:
    (topic,) = create(address, topic_to_create("only-checked"), validate_only=True).topics

    assert topic.error_code is ErrorCode.none
    assert metadata(address, "only-checked").topics[0].error_code is ErrorCode.unknown_topic_or_partition


def test_a_request_without_time_has_no_effect(address: str, new_topic: Callable[..., str]) -> None:
    kept = new_topic()

    (topic,) = create(address, topic_to_create("too-late"), timeout=timedelta(0)).topics
    deleted = delete(address, (kept, None), within=timedelta(0))

    assert topic.error_code is ErrorCode.request_timed_out
    assert metadata(address, "too-late").topics[0].error_code is ErrorCode.unknown_topic_or_partition
    assert deleted == {(kept, None): ErrorCode.request_timed_out}
    assert metadata(address, kept).topics[0].error_code is ErrorCode.none


def test_topics_are_deleted_by_name_and_by_id(address: str, new_topic: Callable[..., str]) -> None:
    by_name, by_id = new_topic(), new_topic()
    ids = {topic.name: topic.topic_id for topic in metadata(address, by_name, by_id).topics}

    deleted = delete(address, (by_name, None), (None, ids[by_id]))

    assert deleted == {(by_name, ids[by_name]): ErrorCode.none, (by_id, ids[by_id]): ErrorCode.none}
    gone = {topic.error_code for topic in metadata(address, by_name, by_id).topics}
    assert gone == {ErrorCode.unknown_topic_or_partition}


def test_what_cannot_be_deleted_is_told_for_each(address: str) -> None:
    unknown_id = UUID(int=99)

    deleted = delete(
        address,
        ("absent", None),
        (None, unknown_id),
        (None, None),
        ("both", unknown_id),
        ("twice", None),
        ("twice", None),
    )

    assert deleted == {
        ("absent", None): ErrorCode.unknown_topic_or_partition,
        (None, unknown_id): ErrorCode.unknown_topic_id,
        (None, None): ErrorCode.invalid_request,
        ("both", unknown_id): ErrorCode.invalid_request,
        ("twice", None): ErrorCode.invalid_request,
    }


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)])
def test_deletion_can_be_disabled(tmp_path: Path, version: int, code: ErrorCode) -> None:
    with running_node(tmp_path, delete_topic_enable=False) as running:
        create(running.address, topic_to_create("kept"))

        answer = ask(running.address, DELETE_TOPICS, version, topic_names=["kept"], timeout=IN_TIME)

        assert [row.error_code for row in answer.responses] == [code]
        assert metadata(running.address, "kept").topics[0].error_code is ErrorCode.none


def test_librdkafka_creates_and_deletes_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})

    admin.create_topics([NewTopic("by-librdkafka", 2, 1)])["by-librdkafka"].result(PATIENCE_S)
    with pytest.raises(KafkaException) as again:
        admin.create_topics([NewTopic("by-librdkafka", 2, 1)])["by-librdkafka"].result(PATIENCE_S)
    admin.delete_topics(["by-librdkafka"])["by-librdkafka"].result(PATIENCE_S)

    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    assert metadata(address, "by-librdkafka").topics[0].error_code is ErrorCode.unknown_topic_or_partition


def test_a_topic_made_anew_under_its_old_name_is_another_topic(address: str, new_topic: Callable[..., str]) -> None:
    name = new_topic(partitions=2, retention_ms="77")
    (before,) = metadata(address, name).topics
    ask(address, DELETE_TOPICS, 6, topics=[{"name": name, "topic_id": None}], timeout=timedelta(seconds=60))
    (created,) = create(address, topic_to_create(name)).topics

    (after,), (by_old_id,) = metadata(address, name).topics, metadata(address, before.topic_id).topics

    assert after.topic_id == created.topic_id != before.topic_id
    assert len(after.partitions) == 1
    assert by_old_id.error_code is ErrorCode.unknown_topic_id
    assert {config.value for config in created.configs if config.name == "retention.ms"} == {"604800000"}
