"""Consumers of librdkafka with `group.protocol=consumer`: they come, go, crash, and subscribe by pattern."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count

import pytest
from tests.broker.apis.altering import GROUP, set_config
from tests.broker.apis.committing import committed
from tests.broker.apis.consuming import Place
from tests.interop.clients import Confluent, Sent
from tests.interop.conftest import create_topic
from tests.interop.group_consumers import SHORT_SESSION_MS, ConsumerProtocolMember, GroupConsumer
from tests.interop.test_groups import share
from tests.waiting import PATIENCE_S, until

from ottla.testing.process import NodeProcess, running_process

PARTITIONS = 6
_numbers = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(
        tmp_path_factory.mktemp("groups"), offsets_topic_num_partitions=4, group_consumer_heartbeat_interval_ms=200,
        group_consumer_min_heartbeat_interval_ms=100, group_consumer_min_session_timeout_ms=1000,
        group_consumer_assignment_interval_ms=100,
    ) as node:  # fmt: skip
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]


@pytest.fixture
def topic(node: NodeProcess) -> str:
    return create_topic(node.address, f"shared-{next(_numbers)}", PARTITIONS)


def produce(node: NodeProcess, topic: str, each: int) -> None:
    records = [Sent(value=b"%d" % number, partition=number % PARTITIONS) for number in range(each * PARTITIONS)]
    Confluent().produce(node.address, topic, records)


def member(node: NodeProcess, topic: str, group: str, instance_id: str | None = None) -> GroupConsumer:
    return ConsumerProtocolMember(node.address, topic, group, "uniform", instance_id)


@pytest.mark.parametrize("assignor", ConsumerProtocolMember.assignors)
def test_members_share_come_and_go(node: NodeProcess, topic: str, assignor: str) -> None:
    group, place = f"{topic}-{assignor}", Place(node.address, topic)
    produce(node, topic, 10)
    first = ConsumerProtocolMember(node.address, topic, group, assignor)
    until(lambda: len(first.assigned) == PARTITIONS, "the first has all")
    second = ConsumerProtocolMember(node.address, topic, group, assignor)
    share([first, second])
    until(lambda: place.describe(group)["state"] == "Stable", "it comes to rest")
    assert place.describe(group)["assignor"] == assignor
    produce(node, topic, 10)
    places = {(partition, offset) for partition in range(PARTITIONS) for offset in range(20)}
    until(lambda: set(first.received) | set(second.received) == places, "all records are read")
    first.close()
    until(lambda: len(second.assigned) == PARTITIONS, "who stays has all")
    second.close()

    assert place.listed(types_filter=["consumer"], states_filter=["empty"])[-1][0] == group
    assert sorted(row[:2] for row in committed(node.address, group)[topic]) == [(at, 20) for at in range(PARTITIONS)]


CRASHING = """
import sys
from tests.interop.group_consumers import ConsumerProtocolMember
from tests.waiting import until
member = ConsumerProtocolMember(*sys.argv[1:])
until(lambda: len(member.assigned) == 3, "has its part")
print("ready", flush=True)
member._thread.join()
"""


def test_a_killed_member_is_missed_and_replaced(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-killed"
    set_config(node.address, GROUP, group, consumer_session_timeout_ms=str(SHORT_SESSION_MS))
    stays = member(node, topic, group)
    command = [sys.executable, "-c", CRASHING, node.address, topic, group, "uniform"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as crashing:
        assert crashing.stdout is not None and crashing.stdout.readline() == b"ready\n"
        until(lambda: len(stays.assigned) == 3, "both have their part")
        crashing.send_signal(signal.SIGKILL)
        crashing.wait()
    until(lambda: len(stays.assigned) == PARTITIONS, "who stays has all")
    stays.close()


def test_a_static_member_is_restarted_without_disturbing_anyone(node: NodeProcess, topic: str) -> None:
    group, place = f"{topic}-static", Place(node.address, topic)
    members = [member(node, topic, group, name) for name in ("a", "b", "c")]
    share(members)
    until(lambda: place.describe(group)["state"] == "Stable", "it comes to rest")
    before, epochs = members[0].assigned, place.describe(group)["epochs"]

    members[0].close()
    members[0] = member(node, topic, group, "a")
    until(lambda: members[0].assigned == before, "it has what it had")

    until(lambda: place.describe(group)["state"] == "Stable", "it comes to rest")
    assert place.describe(group)["epochs"] == epochs
    for one in members:
        one.close()


def test_a_pattern_finds_the_topics_that_match(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-pattern"
    create_topic(node.address, f"{topic}-too", 2)
    create_topic(node.address, f"un{topic}", 2)

    reader = member(node, f"^{topic}(-too)?$", group)
    place = Place(node.address, topic, f"{topic}-too")
    until(lambda: place.describe(group)["state"] == "Stable" and len(reader.assigned) == PARTITIONS, "it has them")

    ((*_, pattern, has, _target, _kind),) = place.describe(group)["members"]
    assert [name for name, _ in has] == [topic, f"{topic}-too"]
    assert pattern == f"(^{topic}(-too)?$)"  # librdkafka makes one pattern of all that it is given
    reader.close()


def test_a_topic_that_grows_is_read_to_the_last_partition(node: NodeProcess, topic: str) -> None:
    from confluent_kafka import admin

    reader = member(node, topic, f"{topic}-grows")
    until(lambda: len(reader.assigned) == PARTITIONS, "it has all")
    client = admin.AdminClient({"bootstrap.servers": node.address})
    wanted = admin.NewPartitions(topic, PARTITIONS + 2)  # type: ignore[attr-defined]
    client.create_partitions([wanted])[topic].result(PATIENCE_S)

    until(lambda: len(reader.assigned) == PARTITIONS + 2, "it has the new ones too")
    reader.close()


def test_members_stay_when_the_node_is_restarted(node: NodeProcess, topic: str) -> None:
    group, place = f"{topic}-restart", Place(node.address, topic)
    members = [member(node, topic, group) for _ in range(2)]
    share(members)
    until(lambda: place.describe(group)["state"] == "Stable", "it comes to rest")
    before = [one.assigned for one in members]
    epochs = place.describe(group)["epochs"]

    node.stop()
    node.start()
    produce(node, topic, 5)

    places = {(partition, offset) for partition in range(PARTITIONS) for offset in range(5)}
    until(lambda: set(members[0].received) | set(members[1].received) == places, "all is read")
    assert [one.assigned for one in members] == before
    assert place.describe(group)["epochs"] == epochs
    for one in members:
        one.close()
