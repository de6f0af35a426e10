"""Groups of real clients: they come, go and crash, and every partition always finds an owner."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.altering import GROUP, set_config
from tests.interop.clients import Confluent, Sent
from tests.interop.conftest import create_topic
from tests.interop.group_consumers import (
    MEMBERS,
    SHORT_SESSION_MS,
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    GroupConsumer,
    KafkaPythonMember,
)
from tests.waiting import until

from ottla.model.errors import ErrorCode
from ottla.testing.process import NodeProcess, running_process

PARTITIONS = 6
EVERY_ASSIGNOR = [
    pytest.param(member, assignor, id=f"{member.name}-{assignor}")
    for member in MEMBERS
    for assignor in member.assignors
]
SLOW = pytest.mark.slow
_numbers = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(
        tmp_path_factory.mktemp("groups"), group_initial_rebalance_delay_ms=100, group_min_session_timeout_ms=500,
        offsets_topic_num_partitions=4, group_consumer_min_session_timeout_ms=500,
        group_consumer_min_heartbeat_interval_ms=100, group_consumer_heartbeat_interval_ms=200,
    ) as node:  # fmt: skip
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]


@pytest.fixture
def topic(node: NodeProcess) -> str:
    return create_topic(node.address, f"shared-{next(_numbers)}", PARTITIONS)


def produce(node: NodeProcess, topic: str, each: int) -> None:
    records = [Sent(value=b"%d" % number, partition=number % PARTITIONS) for number in range(each * PARTITIONS)]
    Confluent().produce(node.address, topic, records)


def share(members: list[GroupConsumer]) -> None:
    """Until each has its part, and together they have all, once."""
    each = PARTITIONS // len(members)
    until(
        lambda: (
            [len(member.assigned) for member in members] == [each] * len(members)
            and frozenset().union(*[member.assigned for member in members]) == frozenset(range(PARTITIONS))
        ),
        lambda: [member.assigned for member in members],
    )


def state_and_members(node: NodeProcess, group: str) -> tuple[str, set[str]]:
    """Of either protocol."""
    classic = asking.ask(node.address, asking.DESCRIBE_GROUPS, 6, groups=[group], include_authorized_operations=False)
    modern = asking.ask(node.address, 69, 1, group_ids=[group], include_authorized_operations=False)
    (described,) = [one for one in (*classic.groups, *modern.groups) if not one.error_code]
    return described.group_state, {member.member_id for member in described.members}


def generation(node: NodeProcess, group: str) -> int:
    """Of a classic group: the one in which a member's heartbeat counts."""
    _, members = state_and_members(node, group)
    values = {"group_id": group, "member_id": next(iter(members))}
    for number in range(1, 100):
        answer = asking.ask(node.address, asking.HEARTBEAT, 0, **values, generation_id=number)
        if answer.error_code is not ErrorCode.illegal_generation:
            return number
    raise AssertionError("no generation")


@pytest.mark.parametrize(("member", "assignor"), EVERY_ASSIGNOR)
def test_members_share_come_and_go(node: NodeProcess, topic: str, member: Any, assignor: str) -> None:
    group = f"{topic}-{assignor}"
    produce(node, topic, 10)
    first = member(node.address, topic, group, assignor)
    until(lambda: len(first.assigned) == PARTITIONS, "the first has all")
    second = member(node.address, topic, group, assignor)
    share([first, second])
    produce(node, topic, 10)
    places = {(partition, offset) for partition in range(PARTITIONS) for offset in range(20)}
    until(lambda: set(first.received) | set(second.received) == places, "all records are read")
    first.close()
    until(lambda: len(second.assigned) == PARTITIONS, "who stays has all")
    second.close()
    assert state_and_members(node, group) == ("Empty", set())


@pytest.mark.parametrize("assignor", ["range", pytest.param("roundrobin", marks=SLOW)])
def test_clients_of_all_kinds_in_one_group(node: NodeProcess, topic: str, assignor: str) -> None:
    members: list[GroupConsumer] = [member(node.address, topic, f"{topic}-mixed", assignor) for member in MEMBERS]
    share(members)
    for member in members:
        member.close()


@SLOW
def test_clients_that_both_know_sticky_in_one_group(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-sticky"
    members: list[GroupConsumer] = [
        member(node.address, topic, group, "sticky") for member in (KafkaPythonMember, AiokafkaMember)
    ]
    share(members)
    for member in members:
        member.close()


def test_members_of_both_protocols_in_one_group(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-both"
    produce(node, topic, 10)
    classic = ConfluentMember(node.address, topic, group, "cooperative-sticky")
    until(lambda: len(classic.assigned) == PARTITIONS, "the classic one has all")
    modern = ConsumerProtocolMember(node.address, topic, group, "uniform")
    share([classic, modern])
    classic.close()
    until(lambda: len(modern.assigned) == PARTITIONS, "the modern one has all")
    classic = ConfluentMember(node.address, topic, group, "cooperative-sticky")
    share([classic, modern])
    modern.close()
    until(lambda: len(classic.assigned) == PARTITIONS, "the classic one has all again")
    classic.close()


MEMBER = """
import sys
from tests.interop.group_consumers import ALL_MEMBERS
from tests.waiting import until
member = ALL_MEMBERS[sys.argv[1]](*sys.argv[2:6], session_ms=int(sys.argv[6]))
until(lambda: len(member.assigned) == 3, "has its part")
print("ready", flush=True)
member._thread.join()
"""
ONE_OF_EACH = [
    pytest.param(ConfluentMember, "cooperative-sticky", id="confluent"),
    pytest.param(ConsumerProtocolMember, "uniform", id="confluent-consumer"),
    pytest.param(KafkaPythonMember, "sticky", marks=SLOW, id="kafka-python"),
    pytest.param(AiokafkaMember, "roundrobin", marks=SLOW, id="aiokafka"),
]


@contextmanager
def another(node: NodeProcess, topic: str, group: str, kind: Any, assignor: str) -> Iterator[subprocess.Popen[bytes]]:
    """A member in a process of its own, which has half of the partitions, and is missed soon."""
    set_config(node.address, GROUP, group, consumer_session_timeout_ms=str(SHORT_SESSION_MS))
    command = [sys.executable, "-c", MEMBER, kind.name, node.address, topic, group, assignor, str(SHORT_SESSION_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("kind", "assignor"), ONE_OF_EACH)
def test_a_killed_member_is_missed_and_replaced(node: NodeProcess, topic: str, kind: Any, assignor: str) -> None:
    group = f"{topic}-killed"
    produce(node, topic, 1)
    stays = kind(node.address, topic, group, assignor)
    with another(node, topic, group, kind, assignor) as crashing:
        until(lambda: len(stays.assigned) == PARTITIONS // 2, "both have their part")
        crashing.send_signal(signal.SIGKILL)
        crashing.wait()
    until(lambda: len(stays.assigned) == PARTITIONS, "who stays has all")
    stays.close()


@pytest.mark.parametrize(("kind", "assignor"), ONE_OF_EACH)
def test_a_paused_member_is_missed_and_comes_back(node: NodeProcess, topic: str, kind: Any, assignor: str) -> None:
    group = f"{topic}-paused"
    stays = kind(node.address, topic, group, assignor)
    with another(node, topic, group, kind, assignor) as pausing:
        pausing.send_signal(signal.SIGSTOP)
        until(lambda: len(stays.assigned) == PARTITIONS, "who stays has all")
        pausing.send_signal(signal.SIGCONT)
        until(lambda: len(stays.assigned) == PARTITIONS // 2, "they share again")
    stays.close()


def test_a_static_member_is_restarted_without_disturbing_anyone(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-static"
    members: list[GroupConsumer] = [
        ConfluentMember(node.address, topic, group, "range", name) for name in ("a", "b", "c")
    ]
    share(members)
    before = members[0].assigned
    _, ids = state_and_members(node, group)
    members[0].close()
    assert state_and_members(node, group) == ("Stable", ids)  # it leaves without a word
    members[0] = ConfluentMember(node.address, topic, group, "range", "a")
    until(lambda: members[0].assigned == before, "it has what it had")
    state, after = state_and_members(node, group)
    assert state == "Stable" and len(ids & after) == 2
    for member in members:
        member.close()


@pytest.mark.parametrize(
    ("kind", "assignor"),
    [
        pytest.param(ConfluentMember, "range", id="classic"),
        pytest.param(ConsumerProtocolMember, "uniform", id="consumer"),
        pytest.param(ConfluentMember, "cooperative-sticky", marks=SLOW, id="cooperative"),
    ],
)
def test_a_rolling_restart_of_five_static_members_moves_nothing(
    node: NodeProcess, topic: str, kind: Any, assignor: str
) -> None:
    group, names = f"{topic}-rolling", "abcde"
    members = {name: kind(node.address, topic, group, assignor, name) for name in names}
    until(
        lambda: (
            sorted(len(member.assigned) for member in members.values()) == [1, 1, 1, 1, 2]
            and state_and_members(node, group)[0] == "Stable"
        ),
        lambda: [member.assigned for member in members.values()],
    )
    before = generation(node, group) if kind is ConfluentMember else 0
    for name in names:
        others = {other: member.changes for other, member in members.items() if other != name}
        had = members[name].assigned
        members[name].close()
        members[name] = kind(node.address, topic, group, assignor, name)
        until(lambda name=name, had=had: members[name].assigned == had, "it has what it had")  # type: ignore[misc]
        assert {other: members[other].changes for other in others} == others
        assert state_and_members(node, group)[0] == "Stable"
    if kind is ConfluentMember:
        assert generation(node, group) == before
    for member in members.values():
        member.close()
