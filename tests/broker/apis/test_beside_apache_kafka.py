"""The same questions to Apache Kafka and to this node: the answers must say the same, errors above all.

Left out of the comparison: ids, ports and messages, the order of lists, and what Kafka 4.3 has and this node not yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import timedelta
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask, create, topic_to_create
from tests.broker.apis.beside import Both, running_both
from tests.waiting import until

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]

T0 = 1_700_000_000_000
SOON = timedelta(seconds=60)
UNKNOWN_ID = UUID(int=99)
OF_NO_INTEREST = {"error_message", "cluster_id", "port", "throttle_time"}
# With eligible.leader.replicas.version 1, which is not implemented here, Kafka sets this one for the whole cluster.
SET_BY_KAFKA = "min.insync.replicas"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Two brokers with the same topics and records."""
    with running_both(tmp_path_factory, num_partitions=2) as both:
        for address in both:
            _fill(address)
        yield both


def _fill(address: str) -> None:
    created = create(
        address,
        topic_to_create("timed"),
        topic_to_create("empty", 2),
        topic_to_create("short", configs={"retention.ms": "-1", "max.message.bytes": "77"}),
    )
    assert {topic.error_code for topic in created.topics} == {ErrorCode.none}
    for topic in created.topics:
        _wait_until_served(address, topic.name)
    for timestamps in ([T0, T0 + 5], [T0 + 30, T0 + 20, T0 + 30]):
        batch = build_batch([Record(None, b"value", timestamp) for timestamp in timestamps])
        topics = [{"name": "timed", "partition_data": [{"index": 0, "records": batch}]}]
        answer = ask(address, asking.PRODUCE, 9, acks=-1, timeout=SOON, transactional_id=None, topic_data=topics)
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def _wait_until_served(address: str, topic: str) -> None:
    """Kafka answers CreateTopics before the broker has the partitions."""
    until(
        lambda: asking.list_offset(address, topic, -1).error_code is ErrorCode.none,
        lambda: f"{address} does not serve {topic}",
    )


def plain(value: Any) -> Any:
    if is_dataclass(value):
        found = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return {name: item for name, item in found.items() if name not in OF_NO_INTEREST}
    if isinstance(value, tuple):
        items = [plain(item) for item in value if getattr(item, "name", None) != SET_BY_KAFKA]
        return sorted(items, key=repr)
    if isinstance(value, UUID):
        return "an id"
    return value.name if isinstance(value, Enum) else value


def topics(*refs: str | UUID | None) -> list[dict[str, Any]]:
    return [
        {"name": ref if isinstance(ref, str) else None, "topic_id": ref if isinstance(ref, UUID) else None}
        for ref in refs
    ]


def metadata(*refs: str | UUID | None, operations: bool = True) -> dict[str, Any]:
    return {
        "topics": topics(*refs), "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": operations, "include_cluster_authorized_operations": operations,
    }  # fmt: skip


def offsets(timestamp: int, topic: str = "timed", partition: int = 0, **values: Any) -> dict[str, Any]:
    row = {"partition_index": partition, "current_leader_epoch": values.pop("epoch", -1), "timestamp": timestamp}
    asked = [{"name": topic, "partitions": [row]}]
    return {"replica_id": -1, "isolation_level": 0, "topics": asked, "timeout": SOON, **values}


def epoch_end(epoch: int, topic: str = "timed", partition: int = 0, current: int = -1) -> dict[str, Any]:
    row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    return {"replica_id": -1, "topics": [{"topic": topic, "partitions": [row]}]}


def configs(*resources: tuple[int, str], keys: list[str] | None = None, synonyms: bool = True) -> dict[str, Any]:
    rows = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name in resources]
    return {"resources": rows, "include_synonyms": synonyms, "include_documentation": False}


def checked(*asked: dict[str, Any], within: timedelta = SOON) -> dict[str, Any]:
    return {"topics": asked, "timeout": within, "validate_only": True}


def assigned(name: str, *rows: tuple[int, list[int]], replicas: int = -1) -> dict[str, Any]:
    assignments = [{"partition_index": partition, "broker_ids": brokers} for partition, brokers in rows]
    return topic_to_create(name, -1, replicas, assignments=assignments)


WRONG_TOPICS = (
    topic_to_create("timed"), topic_to_create("twice"), topic_to_create("twice"), topic_to_create("bad name"),
    topic_to_create(""), topic_to_create("x" * 250), topic_to_create(".."), topic_to_create("__cluster_metadata"),
    topic_to_create("c1", configs={"retention.ms": "x"}), topic_to_create("c2", configs={"no.such": "x"}),
    topic_to_create("c3", configs={"retention.ms": None}), topic_to_create("c4", configs={"cleanup.policy": "burn"}),
    topic_to_create("r3", 1, 3), topic_to_create("r0", 1, 0), topic_to_create("p0", 0), topic_to_create("pm", -2),
    assigned("a1", (0, [1])), assigned("a2", (1, [1])), assigned("a3", (0, [9])), assigned("a4", (0, [])),
    assigned("a5", (0, [1, 1])), assigned("a6", (0, [1]), replicas=1),
)  # fmt: skip

Question = tuple[int, range | list[int], dict[str, Any]]
QUESTIONS: dict[str, Question] = {
    "metadata of topics": (asking.METADATA, range(14), metadata("timed", "empty", "timed")),
    # older versions cannot say that the topic shall not be created
    "metadata of what is not there": (asking.METADATA, range(4, 14), metadata("absent", "bad name", "")),
    "metadata of nothing": (asking.METADATA, range(1, 14), metadata()),
    "metadata of all": (asking.METADATA, range(1, 14), metadata() | {"topics": None}),
    "metadata of an internal topic": (asking.METADATA, [12], metadata("__consumer_offsets")),
    "metadata by unknown id": (asking.METADATA, range(10, 14), metadata(UNKNOWN_ID, "timed")),
    "metadata without name": (asking.METADATA, range(10, 14), metadata(None)),
    "cluster": (asking.DESCRIBE_CLUSTER, range(3), {
        "include_cluster_authorized_operations": True, "endpoint_type": 1, "include_fenced_brokers": True,
    }),
    "cluster of controllers": (asking.DESCRIBE_CLUSTER, range(3), {
        "include_cluster_authorized_operations": False, "endpoint_type": 2, "include_fenced_brokers": False,
    }),
    "cluster of what": (asking.DESCRIBE_CLUSTER, [1, 2], {
        "include_cluster_authorized_operations": False, "endpoint_type": 9, "include_fenced_brokers": False,
    }),
    "create": (asking.CREATE_TOPICS, range(2, 8), checked(topic_to_create("a", 3, configs={"retention.ms": "7"}))),
    "create by default": (asking.CREATE_TOPICS, range(2, 8), checked(topic_to_create("a", -1, -1))),
    "create what is wrong": (asking.CREATE_TOPICS, range(2, 8), checked(*WRONG_TOPICS)),
    "create nothing": (asking.CREATE_TOPICS, [7], checked()),
    "create without time": (asking.CREATE_TOPICS, [7], checked(topic_to_create("a"), within=timedelta(0))),
    "delete by name": (asking.DELETE_TOPICS, range(1, 6), {"topic_names": ["absent", "a", "a"], "timeout": SOON}),
    "delete by name or id": (asking.DELETE_TOPICS, [6], {
        "topics": [*topics("absent", UNKNOWN_ID, None, "a", "a"), {"name": "timed", "topic_id": UNKNOWN_ID}],
        "timeout": SOON,
    }),
    **{f"offset at {asked}": (asking.LIST_OFFSETS, range(1, 12), offsets(asked)) for asked in range(-7, 0)},
    **{f"offset after {late} ms": (asking.LIST_OFFSETS, [1, 11], offsets(T0 + late)) for late in (-9, 0, 1, 6, 25, 31)},
    **{f"offset at {asked}, empty": (asking.LIST_OFFSETS, [11], offsets(asked, "empty")) for asked in range(-6, 1)},
    "offset of nothing": (asking.LIST_OFFSETS, [11], offsets(-1, "absent")),
    "offset of no partition": (asking.LIST_OFFSETS, [11], offsets(-1, partition=7)),
    "offset in epoch 0": (asking.LIST_OFFSETS, [11], offsets(-1, epoch=0)),
    "offset in epoch 5": (asking.LIST_OFFSETS, [11], offsets(-1, epoch=5)),
    "offset, committed": (asking.LIST_OFFSETS, [2, 11], offsets(-1, isolation_level=1)),
    "offset, isolation 5": (asking.LIST_OFFSETS, [11], offsets(-1, isolation_level=5)),
    **{f"end of epoch {epoch}": (asking.OFFSET_FOR_LEADER_EPOCH, [2, 3, 4], epoch_end(epoch)) for epoch in (-1, 0, 4)},
    "end of epoch, empty": (asking.OFFSET_FOR_LEADER_EPOCH, [4], epoch_end(0, "empty")),
    "end of epoch, absent": (asking.OFFSET_FOR_LEADER_EPOCH, [4], epoch_end(0, "absent")),
    "end of epoch, no partition": (asking.OFFSET_FOR_LEADER_EPOCH, [4], epoch_end(0, partition=8)),
    "end of epoch, in epoch 3": (asking.OFFSET_FOR_LEADER_EPOCH, [4], epoch_end(0, current=3)),
    "configs of topics": (asking.DESCRIBE_CONFIGS, range(1, 5), configs((2, "short"), (2, "timed"))),
    "configs without synonyms": (asking.DESCRIBE_CONFIGS, [4], configs((2, "short"), synonyms=False)),
    "some configs": (asking.DESCRIBE_CONFIGS, [4], configs((2, "short"), keys=["retention.ms", "no.such"])),
    "configs of a broker": (
        asking.DESCRIBE_CONFIGS, [4], configs((4, "1"), keys=["num.partitions", "node.id", "log.retention.ms"]),
    ),
    "configs of others": (
        asking.DESCRIBE_CONFIGS, [4],
        configs((2, "absent"), (2, "bad name"), (2, ""), (4, "2"), (4, "x"), (8, ""), (8, "2"), (16, ""), (32, "")),
    ),
    "configs of what": (asking.DESCRIBE_CONFIGS, [1, 4], configs((2, "timed"), (64, "x"))),
    **{
        f"coordinator of type {kind}": (
            asking.FIND_COORDINATOR, [6], {"key_type": kind, "coordinator_keys": ["not a share partition"]},
        )
        for kind in (-1, 2, 3)
    },
    "coordinator of a share partition": (asking.FIND_COORDINATOR, range(1, 6), {
        "key": "k", "key_type": 2, "coordinator_keys": ["k"],
    }),
    **{
        f"producer id for {transactional_id!r} within {timeout}": (asking.INIT_PRODUCER_ID, [4, 5], {
            "transactional_id": transactional_id, "transaction_timeout": timeout, **had,
        })
        for transactional_id, timeout, had in (
            ("", SOON, {}), ("t", timedelta(0), {}), ("t", timedelta(days=2), {}), (None, SOON, {"producer_id": 3}),
        )
    },
    "software without a name": (asking.API_VERSIONS, [3, 4], {
        "client_software_name": "", "client_software_version": "1",
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_answer_is_apache_kafkas(both: Both, name: str) -> None:
    api, versions, question = QUESTIONS[name]
    for version in versions:
        kafka, ottla = (plain(ask(address, api, version, **question)) for address in both)

        assert ottla == kafka, f"version {version}"
