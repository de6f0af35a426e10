"""Groups of both protocols while the node of their coordinator is killed, stopped, restarted: no commit is lost, and
nothing of their history."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.broker.apis.asking import FIND_COORDINATOR, ask
from tests.cluster.clients import QUIET, a_name, create_topic, isr_is_full, leaders, produce
from tests.waiting import PATIENCE_S, until

from ottla.cli.admin import session
from ottla.cli.admin.elections import Election, elect
from ottla.cli.admin.reassignments import move
from ottla.cli.admin.session import Session
from ottla.cli.cluster_options import Addresses, Cluster
from ottla.cli.group.why import report_on
from ottla.coordinator.group.hashing import group_hash
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition as TopicPartitionName
from ottla.testing.process_cluster import ProcessCluster

OFFSETS = "__consumer_offsets"
HISTORY = "__ottla_group_history"


def settings(cluster: ProcessCluster, group: str, protocol: str) -> dict[str, Any]:
    given: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": protocol,
        "auto.offset.reset": "earliest", "enable.auto.commit": False, **QUIET,
    }  # fmt: skip
    if protocol == "classic":
        given |= {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 500}
    return given


def coordinator(cluster: ProcessCluster, group: str) -> int:
    """As a node that runs says; 0 while none knows."""
    for node in cluster.ids:
        if cluster.is_running(node):
            answer = ask(cluster.address(node), FIND_COORDINATOR, 4, key_type=0, coordinator_keys=[group])
            return max(int(answer.coordinators[0].node_id), 0)
    return 0


class Member:
    """Reads, and commits after every record."""

    def __init__(self, cluster: ProcessCluster, topic: str, group: str, protocol: str) -> None:
        self.seen: Counter[bytes] = Counter()
        self.committed = 0
        self._consumer = Consumer(settings(cluster, group, protocol))
        self._consumer.subscribe([topic])

    def read(self, count: int) -> None:
        """Until so many were read and committed in all."""
        deadline = time.monotonic() + PATIENCE_S
        while self.committed < count:
            assert time.monotonic() < deadline, (self.committed, count)
            message = self._consumer.poll(0.2)
            if message is None or message.error() is not None:
                continue
            self.seen[message.value() or b""] += 1
            self._commit(deadline)
            self.committed += 1

    def _commit(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            with suppress(KafkaException):  # there is no coordinator at this moment
                self._consumer.commit(asynchronous=False)
                return
        raise AssertionError("it could not be committed")

    def close(self) -> None:
        self._consumer.close()


def committed(cluster: ProcessCluster, topic: str, group: str, partitions: int) -> int:
    consumer = Consumer(settings(cluster, group, "classic"))
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=30)
        return sum(max(place.offset, 0) for place in found)
    finally:
        consumer.close()


def history(cluster: ProcessCluster, group: str) -> list[dict[str, Any]]:
    """As `ottla group why --output json` tells it."""
    where = Cluster(Addresses().convert(cluster.bootstrap, None, None))
    try:
        report = session.run(where, lambda there: report_on(there, group, None, int(time.time() * 1000)))
    except OttlaError:  # nothing is known of it yet
        return []
    told: list[dict[str, Any]] = report.as_value(100)["history"]
    return told


def first_rebalance(cluster: ProcessCluster, group: str) -> dict[str, Any] | None:
    """Once it is complete."""
    found = (each for each in history(cluster, group) if each["number"] == 0 and each.get("outcome") == "completed")
    return next(found, None)


def numbers_told(cluster: ProcessCluster, group: str) -> set[int]:
    return {each["number"] for each in history(cluster, group)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("fate", ["killed", "stopped"])
def test_a_group_goes_on_where_it_was_when_its_coordinator_moves(
    whole: ProcessCluster, protocol: str, fate: str
) -> None:
    topic, group = create_topic(whole), a_name("group")
    produce(whole.bootstrap, topic, [b"%d" % number for number in range(60)])
    member = Member(whole, topic, group, protocol)
    member.read(20)
    remembered = until(lambda: first_rebalance(whole, group))
    until(lambda: isr_is_full(whole, OFFSETS) and isr_is_full(whole, HISTORY))
    before = coordinator(whole, group)
    (whole.kill if fate == "killed" else whole.stop)(before)
    member.read(40)
    until(lambda: coordinator(whole, group) not in (0, before))
    assert until(lambda: first_rebalance(whole, group)) == remembered
    whole.start(before)
    member.read(60)
    member.close()
    assert member.seen == Counter(b"%d" % number for number in range(60)), "each once: no commit was forgotten"
    assert committed(whole, topic, group, 3) == 60


def led_by(cluster: ProcessCluster, topic: str, group: str) -> int:
    found = leaders(cluster, topic)
    return found[group_hash(group) % len(found)] if found else 0


def test_a_history_that_was_led_astray_comes_back_to_its_coordinator(whole: ProcessCluster) -> None:
    topic, group = create_topic(whole), a_name("group")
    produce(whole.bootstrap, topic, [b"1"])
    first = Member(whole, topic, group, "classic")
    first.read(1)
    remembered = until(lambda: first_rebalance(whole, group))
    there = coordinator(whole, group)
    elsewhere, third = (each for each in whole.ids if each != there)
    partition = TopicPartitionName(HISTORY, group_hash(group) % len(leaders(whole, HISTORY)))

    async def lead_astray(asked: Session) -> None:
        assert await move(asked, {partition: [elsewhere, third, there]}) == {partition: None}
        assert await elect(asked, Election.PREFERRED, [partition]) == {partition: None}

    until(lambda: isr_is_full(whole, HISTORY))
    session.run(Cluster(Addresses().convert(whole.bootstrap, None, None)), lead_astray)
    until(lambda: led_by(whole, HISTORY, group) == elsewhere)
    first.close()  # something to remember
    second = Member(whole, topic, group, "classic")
    produce(whole.bootstrap, topic, [b"2"])
    second.read(1)
    until(lambda: coordinator(whole, group) == led_by(whole, HISTORY, group))
    until(lambda: numbers_told(whole, group) >= {0, 1})
    assert first_rebalance(whole, group) == remembered
    second.close()


def test_commits_outlive_every_node_in_turn(whole: ProcessCluster) -> None:
    topic, group = create_topic(whole), a_name("group")
    produce(whole.bootstrap, topic, [b"%d" % number for number in range(10)])
    member = Member(whole, topic, group, "classic")
    member.read(10)
    member.close()
    for node in whole.ids:
        until(lambda: isr_is_full(whole, OFFSETS))
        whole.kill(node)
        until(lambda: coordinator(whole, group))
        assert committed(whole, topic, group, 3) == 10
        whole.start(node)


def test_the_internal_topic_is_on_all_three_nodes(whole: ProcessCluster) -> None:
    group = a_name("group")
    until(lambda: coordinator(whole, group))
    found = Consumer(settings(whole, group, "classic")).list_topics(OFFSETS, timeout=30).topics[OFFSETS]
    assert {len(partition.replicas) for partition in found.partitions.values()} == {3}
