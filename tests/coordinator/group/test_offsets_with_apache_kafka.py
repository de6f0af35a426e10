"""Apache Kafka's tools read our `__consumer_offsets`, and our coordinator reads what Apache Kafka wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.committing import await_coordinator, commit, committed, delete
from tests.coordinator.group.record_kafka_groups import (
    PARTITIONS,
    SETTINGS,
    TOPICS,
    described,
    fill_classic,
    fill_modern,
    fill_offsets,
    is_served,
    listed,
    offsets,
    topic_ids,
)
from tests.corpus.conversations.talk import Talk
from tests.interop.conftest import create_topic
from tests.interop.test_committed_offsets import read_all
from tests.waiting import until

from ottla.broker.group_coordinator import group_hash
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import ApacheKafka, free_port, tool
from ottla.testing.node import running_node

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]


def test_its_decoder_reads_what_we_write(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        create(node.address, topic_to_create("orders", 3))
        await_coordinator(node.address, "billing")
        commit(node.address, "billing", {"orders": {0: 7, 1: 8}}, metadata="so far", epoch=4)
        commit(node.address, "billing", {"orders": {2: 9}}, version=2, retention_ms=86_400_000)
        delete(node.address, "billing", {"orders": [1]})
    (log,) = (tmp_path / f"__consumer_offsets-{group_hash('billing') % 50}").glob("*.log")

    done = tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--offsets-decoder")

    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if '"group":"billing","topic":"orders"' in line]
    assert len(lines) == 4, done.stdout
    assert '"partition":0' in lines[0] and '"offset":7,"leaderEpoch":4,"metadata":"so far"' in lines[0]
    assert '"partition":2' in lines[2] and '"expireTimestamp":' in lines[2]
    assert '"partition":1' in lines[3] and '"offset"' not in lines[3]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log dir of an Apache Kafka that has had consumers of all sorts."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    kafka = ApacheKafka.start(tmp_path_factory.mktemp("kafka"), free_port(), offsets_topic_num_partitions=5)
    try:
        topic = create_topic(kafka.bootstrap, "orders", 3)
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(10):
            producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(20)
        assert len(read_all(kafka.bootstrap, "members", topic, 10)) == 10
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "alone", "enable.auto.commit": False})
        for offset in (3, 4):
            consumer.commit(offsets=[TopicPartition(topic, 1, offset)], asynchronous=False)
        for name, commits in (("kept", True), ("dropped", False)):
            transactional = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
            transactional.init_transactions(20)
            transactional.begin_transaction()
            offsets = [TopicPartition(topic, 2, 50 + commits)]
            transactional.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 20)
            if commits:
                transactional.commit_transaction(20)
            else:
                transactional.abort_transaction(20)
        consumer.close()
        for group in range(20):
            commit(kafka.bootstrap, f"many-{group}", {topic: {0: group, 1: group + 1}}, version=group % 8 + 2)
        commit(kafka.bootstrap, "old", {topic: {0: 5}}, version=2, retention_ms=86_400_000)
        commit(kafka.bootstrap, "deleted", {topic: {0: 5, 1: 5}})
        delete(kafka.bootstrap, "deleted", {topic: [0]})
    finally:
        kafka.stop()
    return kafka.data


def test_we_find_its_groups_offsets(written: Path, tmp_path: Path) -> None:
    with running_node(tmp_path, offsets_topic_num_partitions=5) as node:
        create(node.address, topic_to_create("orders", 3))
        await_coordinator(node.address)
    for number in range(5):
        ours, theirs = (folder / f"__consumer_offsets-{number}" for folder in (tmp_path, written))
        for file in ours.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for log in theirs.glob("*.log"):
            shutil.copy(log, ours)
    (tmp_path / ".kafka_cleanshutdown").unlink()

    with running_node(tmp_path, offsets_topic_num_partitions=5) as node:
        groups = ["members", "alone", "old", "deleted", *(f"many-{number}" for number in range(20))]
        for group in groups:
            await_coordinator(node.address, group)
        found = {group: committed(node.address, group).get("orders", []) for group in groups}
        coordinator = node.node.groups
        members = node.on_loop(lambda: coordinator.read("members", lambda machine: machine.classic.describe("members")))
        commit(node.address, "alone", {"orders": {1: 6}})
        again = committed(node.address, "alone")["orders"]

    assert [row[:2] for row in found["members"]] == [(0, 10)]
    assert sorted(row[:2] for row in found["alone"]) == [(1, 4), (2, 51)]
    assert found["old"] == [(0, 5, -1, "")]
    assert found["deleted"] == [(1, 5, -1, "")]
    for number in range(20):
        assert sorted(row[:2] for row in found[f"many-{number}"]) == [(0, number), (1, number + 1)]
    assert members.state == "Empty"
    assert dict(row[:2] for row in again) == {1: 6, 2: 51}


def test_it_finds_our_groups_and_offsets(tmp_path: Path) -> None:
    ours, settings = (
        tmp_path / "ours",
        {"offsets_topic_num_partitions": PARTITIONS, "group_initial_rebalance_delay_ms": 0},
    )
    with running_node(ours, **settings) as node:
        for name, partitions in TOPICS.items():
            create(node.address, topic_to_create(name, partitions))
        until(lambda: is_served(node.address), "the coordinator is loaded")
        with Talk(node.port, "", topic_ids(node.address)) as talk:
            fill_classic(talk)
        fill_offsets(node.address)
        groups = [row[0] for row in listed(node.address)]
        expected = _looked_at(node.address, groups)
    port = free_port()
    kafka = ApacheKafka.start(tmp_path / "kafka", port, **SETTINGS)
    try:
        for name, partitions in TOPICS.items():
            create_topic(kafka.bootstrap, name, partitions)
        until(lambda: is_served(kafka.bootstrap), "the coordinator is loaded")
    finally:
        kafka.stop()
    for number in range(PARTITIONS):
        theirs = kafka.data / f"__consumer_offsets-{number}"
        for file in theirs.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for log in (ours / f"__consumer_offsets-{number}").glob("*.log"):
            shutil.copy(log, theirs)
    (kafka.data / ".kafka_cleanshutdown").unlink()

    kafka = ApacheKafka.start(tmp_path / "kafka", port, **SETTINGS)
    try:
        until(lambda: is_served(kafka.bootstrap), "the coordinator is loaded")
        found = _looked_at(kafka.bootstrap, groups)
    finally:
        kafka.stop()

    assert {"stable", "static", "left", "connect", "simple", "old"} <= set(groups) and "deleted" not in groups
    assert found == expected


def _looked_at(address: str, groups: list[str]) -> tuple[object, ...]:
    return (
        listed(address),
        {group: described(address, group) for group in groups},
        {group: offsets(address, group) for group in groups},
    )


def test_its_decoder_reads_our_groups(tmp_path: Path) -> None:
    with running_node(tmp_path, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0) as node:
        for name, partitions in TOPICS.items():
            create(node.address, topic_to_create(name, partitions))
        until(lambda: is_served(node.address), "the coordinator is loaded")
        with Talk(node.port, "", topic_ids(node.address)) as talk:
            fill_classic(talk)
    (log,) = (tmp_path / "__consumer_offsets-0").glob("*.log")

    done = tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--offsets-decoder")

    assert done.returncode == 0, done.stderr
    (last,) = [line for line in done.stdout.splitlines() if '"group":"stable"' in line and '"generation":2' in line]
    assert '"type":"2"' in last and '"protocolType":"consumer"' in last and '"protocol":"range"' in last
    assert last.count('"memberId"') == 2 and '"groupInstanceId":null' in last
    (gone,) = [
        line
        for line in done.stdout.splitlines()
        if '"type":"2","data":{"group":"deleted"' in line and "<DELETE>" in line
    ]
    assert gone


def test_its_decoder_reads_our_groups_of_the_consumer_protocol(tmp_path: Path) -> None:
    with running_node(tmp_path, offsets_topic_num_partitions=1) as node:
        for name, partitions in TOPICS.items():
            create(node.address, topic_to_create(name, partitions))
        until(lambda: is_served(node.address), "the coordinator is loaded")
        for consumer in fill_modern(node.address):
            consumer.close()
    (log,) = (tmp_path / "__consumer_offsets-0").glob("*.log")

    done = tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--offsets-decoder")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for kind in (3, 5, 6, 7, 8, 16):  # group, member, target, target of a member, current assignment, pattern
        assert any(f'"type":"{kind}"' in line and '"version":"0","data"' in line for line in lines), kind
    assert not [line for line in lines if "Failed to decode" in line]
