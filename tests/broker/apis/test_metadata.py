from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka.admin import AdminClient
from tests.broker.apis.asking import metadata
from tests.waiting import PATIENCE_S, attempts

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node

NOT_ASKED = -(2**31)
ALL_OPERATIONS_ON_A_TOPIC = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_OPERATIONS_ON_THE_CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))


def codes(answer: Any) -> dict[str | None, ErrorCode]:
    return {topic.name: topic.error_code for topic in answer.topics}


def test_a_topic_is_told_with_its_partitions_and_their_leader(node: RunningNode, new_topic: Callable[..., str]) -> None:
    name = new_topic(3)

    answer = metadata(node.address, name)

    (topic,) = answer.topics
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", node.port)
    assert (answer.cluster_id, answer.controller_id, answer.error_code) == (node.node.cluster_id, 1, ErrorCode.none)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
    assert {partition.leader_id for partition in topic.partitions} == {1}
    assert {partition.isr_nodes for partition in topic.partitions} == {(1,)}
    assert {partition.offline_replicas for partition in topic.partitions} == {()}


def test_all_topics_are_asked_for_by_null_and_in_version_0_by_an_empty_list(
    address: str, new_topic: Callable[..., str]
) -> None:
    name = new_topic()

    assert name in codes(metadata(address))
    assert name in codes(metadata(address, version=0))
    assert codes(metadata(address, version=1, topics=[])) == {}


def test_a_topic_can_be_asked_for_by_its_id(address: str, new_topic: Callable[..., str]) -> None:
    name = new_topic()
    topic_id = metadata(address, name).topics[0].topic_id

    answer = metadata(address, topic_id, UUID(int=99), "a name beside ids is passed over")

    assert codes(answer) == {name: ErrorCode.none, None: ErrorCode.unknown_topic_id}


def test_topics_that_are_not_there_are_told_apart_from_names_that_cannot_be(address: str) -> None:
    answer = metadata(address, "absent", "absent", "bad name", "", "__consumer_offsets")

    assert codes(answer) == {
        "absent": ErrorCode.unknown_topic_or_partition,
        "bad name": ErrorCode.invalid_topic_exception,
        "": ErrorCode.invalid_topic_exception,
        "__consumer_offsets": ErrorCode.unknown_topic_or_partition,
    }
    assert {topic.name for topic in answer.topics if topic.is_internal} == {"__consumer_offsets"}


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_versions_that_only_answer_with_them_are_refused(address: str, version: int) -> None:
    answer = metadata(address, UUID(int=5), version=version)

    assert [topic.error_code for topic in answer.topics] == [ErrorCode.invalid_request]
    assert answer.brokers == ()


def test_a_topic_without_name_and_id_is_refused(address: str) -> None:
    answer = metadata(address, topics=[{"name": None, "topic_id": None}])

    assert answer.error_code is ErrorCode.unknown_server_error


def test_what_the_asker_may_do_is_told_only_if_asked(address: str, new_topic: Callable[..., str]) -> None:
    name = new_topic()

    asked = metadata(
        address, name, version=10, include_topic_authorized_operations=True, include_cluster_authorized_operations=True
    )
    not_asked = metadata(address, name, version=10)

    assert asked.topics[0].topic_authorized_operations == ALL_OPERATIONS_ON_A_TOPIC
    assert asked.cluster_authorized_operations == ALL_OPERATIONS_ON_THE_CLUSTER
    assert not_asked.topics[0].topic_authorized_operations == NOT_ASKED
    assert not_asked.cluster_authorized_operations == NOT_ASKED


def test_asking_for_a_topic_creates_it_and_says_unknown_until_it_is_there(address: str) -> None:
    first = metadata(address, "created-by-asking", "bad name", create=True)

    assert codes(first) == {
        "created-by-asking": ErrorCode.unknown_topic_or_partition,
        "bad name": ErrorCode.invalid_topic_exception,
    }
    assert len(_until_there(address, "created-by-asking").partitions) == 2  # num.partitions


def test_versions_below_4_cannot_refuse_the_creation(address: str) -> None:
    metadata(address, "created-by-an-old-client", version=3)

    assert _until_there(address, "created-by-an-old-client").error_code is ErrorCode.none


def test_nothing_is_created_if_client_or_broker_do_not_want_it(tmp_path: Path, address: str) -> None:
    metadata(address, "not-wanted", create=False)
    with running_node(tmp_path, auto_create_topics_enable=False) as strict:
        metadata(strict.address, "not-wanted", create=True)
        metadata(strict.address, "not-wanted", version=3)

        assert codes(metadata(strict.address)) == {}
    assert "not-wanted" not in codes(metadata(address))


def test_an_answer_is_new_once_the_metadata_are(address: str, new_topic: Callable[..., str]) -> None:
    before = codes(metadata(address))
    name = new_topic()
    after = codes(metadata(address))

    assert after == {**before, name: ErrorCode.none}
    assert codes(metadata(address)) == after


def test_clients_are_told_the_address_of_the_listener_they_came_in_on(tmp_path: Path) -> None:
    settings = {
        "listeners": "ONE://127.0.0.1:0,TWO://127.0.0.1:0",
        "advertised_listeners": "ONE://one.example:1111,TWO://two.example:2222",
        "listener_security_protocol_map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
        "inter_broker_listener_name": "ONE",
    }
    with running_node(tmp_path, **settings) as running:
        told = [
            (metadata(f"127.0.0.1:{listener.port}").brokers[0].host, listener.port)
            for listener in running.node.listening.listeners.values()
        ]

    assert [host for host, _ in told] == ["one.example", "two.example"]


def test_librdkafka_lists_topics(node: RunningNode, new_topic: Callable[..., str]) -> None:
    name = new_topic(3)

    listed = AdminClient({"bootstrap.servers": node.address}).list_topics(timeout=PATIENCE_S)

    assert sorted(listed.topics[name].partitions) == [0, 1, 2]
    assert listed.cluster_id == node.node.cluster_id


def _until_there(address: str, name: str) -> Any:
    for _ in attempts(f"{name} is created"):
        (topic,) = metadata(address, name).topics
        if topic.error_code is ErrorCode.none:
            return topic
    raise AssertionError
