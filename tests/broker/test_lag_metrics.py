"""Lag and offsets of groups on the metrics endpoint, under the names that exporters for Kafka have."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.broker.apis import asking
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.committing import await_coordinator, commit
from tests.broker.watching import get, scrape
from tests.waiting import PATIENCE_S, at_best, attempts

from ottla.coordinator.group.offsets import Commit, Member
from ottla.testing.node import RunningNode, running_node

_names = count()
GROUPS, OFFSETS = 1500, 20


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("node")
    with running_node(
        folder, ottla_metrics_listener="127.0.0.1:0", group_initial_rebalance_delay_ms=0
    ) as running:  # fmt: skip
        await_coordinator(running.address)
        yield running


@pytest.fixture
def topic(node: RunningNode) -> str:
    """Ten records in each of two partitions."""
    name = f"topic-{next(_names)}"
    create(node.address, topic_to_create(name, 2))
    producer = Producer({"bootstrap.servers": node.address})
    for number in range(20):
        producer.produce(name, b"x", partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    return name


def test_lag_and_offsets_by_partition_and_in_sum(node: RunningNode, topic: str) -> None:
    group = f"{topic}-group"
    commit(node.address, group, {topic: {0: 3, 1: 10}})

    found = scrape(node)

    for partition, offset, lag in ((0, 3, 7), (1, 10, 0)):
        place = {"topic": topic, "partition": partition}
        assert found.value("kafka_consumergroup_current_offset", consumergroup=group, **place) == offset
        assert found.value("kafka_consumergroup_lag", consumergroup=group, **place) == lag
        assert found.value("kafka_consumer_group_lag", group=group, **place) == lag
        assert found.value("kafka_topic_partition_current_offset", **place) == 10
        assert found.value("kafka_topic_partition_oldest_offset", **place) == 0
    assert found.value("kafka_consumergroup_current_offset_sum", consumergroup=group, topic=topic) == 13
    assert found.value("kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 7
    assert found.value("kafka_consumergroup_members", consumergroup=group) == 0
    assert found.value("kafka_topic_partitions", topic=topic) == 2
    assert found.value("kafka_brokers") == 1


def test_members_are_counted_and_lag_goes_with_commits(node: RunningNode, topic: str) -> None:
    group = f"{topic}-group"
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": group, "auto.offset.reset": "earliest",
         "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe([topic])
    got = 0
    for _ in attempts():
        if got == 20:
            break
        got += len(consumer.consume(20 - got, 0.2))
    assert f'consumergroup="{group}",topic' not in scrape(node).text
    consumer.commit(asynchronous=False)
    found = scrape(node)
    assert found.value("kafka_consumergroup_members", consumergroup=group) == 1
    assert found.value("kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 0
    consumer.close()
    assert scrape(node).value("kafka_consumergroup_members", consumergroup=group) == 0
    asking.ask(node.address, asking.DELETE_GROUPS, 2, groups_names=[group])
    assert f'"{group}"' not in scrape(node).text


def test_any_name_of_a_group_is_written_as_prometheus_wants_it(node: RunningNode, topic: str) -> None:
    commit(node.address, 'a "quoted"\\\ngroup', {topic: {0: 9}})
    text = scrape(node).text
    assert (
        f'kafka_consumergroup_lag{{consumergroup="a \\"quoted\\"\\\\\\ngroup",topic="{topic}",partition="0"}} 1\n'
        in text
    )


def test_an_offset_beyond_the_end_is_no_negative_lag(node: RunningNode, topic: str) -> None:
    commit(node.address, f"{topic}-beyond", {topic: {0: 99}})
    found = scrape(node)
    assert found.value("kafka_consumergroup_lag", consumergroup=f"{topic}-beyond", topic=topic, partition=0) == 0


def test_many_groups_do_not_stall_the_node(node: RunningNode) -> None:
    topic = f"topic-{next(_names)}"
    create(node.address, topic_to_create(topic, OFFSETS))
    node.wait_for(commit_all(node, topic))

    longest = at_best(lambda: node.wait_for(longest_stall(node)), below=0.1)

    text = get(node, "/metrics")[1].decode()
    assert text.count(f'topic="{topic}",partition="7"}}') >= 3 * GROUPS
    assert longest < 0.1


async def commit_all(node: RunningNode, topic: str) -> None:
    """Straight into the coordinator: what is measured is the scrape."""
    commits = [Commit(topic, number, number) for number in range(OFFSETS)]

    def write(name: str) -> Coroutine[Any, Any, object]:
        return node.node.groups.write(name, lambda machine: machine.offsets.commit(Member(name), commits, 9))

    for begin in range(0, GROUPS, 100):
        await asyncio.gather(*(write(f"many-{number}") for number in range(begin, begin + 100)))


async def longest_stall(node: RunningNode) -> float:
    """How late the loop is at most while a scrape is under way."""
    loop = asyncio.get_running_loop()
    scraping = loop.run_in_executor(None, lambda: get(node, "/metrics"))
    longest = 0.0
    while not scraping.done():
        begun = loop.time()
        await asyncio.sleep(0.001)
        longest = max(longest, loop.time() - begun - 0.001)
    status: Any = (await scraping)[0]
    assert status == 200
    return longest
