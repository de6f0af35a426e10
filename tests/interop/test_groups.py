"""Groups of real clients: they come, go and crash, and every partition always finds an owner."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.interop.clients import Confluent, Sent
from tests.interop.conftest import create_topic
from tests.interop.group_consumers import MEMBERS, SESSION_MS, ConfluentMember, GroupConsumer, until

from ottla.testing.process import NodeProcess, running_process

PARTITIONS = 6
EVERY_ASSIGNOR = [
    pytest.param(member, assignor, id=f"{member.name}-{assignor}")
    for member in MEMBERS
    for assignor in member.assignors
]
_numbers = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(
        tmp_path_factory.mktemp("groups"), group_initial_rebalance_delay_ms=200, group_min_session_timeout_ms=500,
        offsets_topic_num_partitions=4,
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
        f"{[member.assigned for member in members]}",
    )


def generation_and_members(node: NodeProcess, group: str) -> tuple[str, set[str]]:
    (described,) = asking.ask(
        node.address, asking.DESCRIBE_GROUPS, 6, groups=[group], include_authorized_operations=False
    ).groups
    return described.group_state, {member.member_id for member in described.members}


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
    assert generation_and_members(node, group) == ("Empty", set())


def test_clients_of_all_kinds_in_one_group(node: NodeProcess, topic: str) -> None:
    members: list[GroupConsumer] = [member(node.address, topic, f"{topic}-mixed", "range") for member in MEMBERS]
    share(members)
    for member in members:
        member.close()


CRASHING = """
import sys
from tests.interop.group_consumers import ConfluentMember, until
member = ConfluentMember(*sys.argv[1:])
until(lambda: len(member.assigned) == 3, "has its part")
print("ready", flush=True)
member._thread.join()
"""


def test_a_killed_member_is_missed_and_replaced(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-killed"
    produce(node, topic, 1)
    stays = ConfluentMember(node.address, topic, group, "cooperative-sticky")
    command = [sys.executable, "-c", CRASHING, node.address, topic, group, "cooperative-sticky"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as crashing:
        assert crashing.stdout is not None and crashing.stdout.readline() == b"ready\n"
        share_of_both = stays.assigned
        crashing.send_signal(signal.SIGKILL)
        crashing.wait()
    assert len(share_of_both) < PARTITIONS
    until(lambda: len(stays.assigned) == PARTITIONS, "who stays has all", within=10 * SESSION_MS / 1000)
    stays.close()


def test_a_static_member_is_restarted_without_disturbing_anyone(node: NodeProcess, topic: str) -> None:
    group = f"{topic}-static"
    members: list[GroupConsumer] = [
        ConfluentMember(node.address, topic, group, "range", name) for name in ("a", "b", "c")
    ]
    share(members)
    before = members[0].assigned
    _, ids = generation_and_members(node, group)
    members[0].close()
    assert generation_and_members(node, group) == ("Stable", ids)  # it leaves without a word
    members[0] = ConfluentMember(node.address, topic, group, "range", "a")
    until(lambda: members[0].assigned == before, "it has what it had")
    state, after = generation_and_members(node, group)
    assert state == "Stable" and len(ids & after) == 2
    for member in members:
        member.close()
