"""A group of real clients moves to the consumer protocol and back, restart by restart, and reads all the while."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask
from tests.interop.clients import Confluent, Sent
from tests.interop.conftest import create_topic
from tests.interop.group_consumers import ConfluentMember, ConsumerProtocolMember, GroupConsumer
from tests.waiting import until

from ottla.testing.process import NodeProcess, running_process

PARTITIONS = 6
_numbers = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(
        tmp_path_factory.mktemp("groups"), group_initial_rebalance_delay_ms=100, group_min_session_timeout_ms=500,
        offsets_topic_num_partitions=4, group_consumer_min_heartbeat_interval_ms=100,
        group_consumer_heartbeat_interval_ms=200, group_consumer_assignment_interval_ms=0,
    ) as node:  # fmt: skip
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]


class Group:
    def __init__(self, node: NodeProcess, assignor: str, *instances: str | None) -> None:
        self.node = node
        self.assignor = assignor
        self.topic = create_topic(node.address, f"moving-{next(_numbers)}", PARTITIONS)
        self.id = f"{self.topic}-group"
        self.sent = 0
        self.gone: list[GroupConsumer] = []
        self.instances = instances
        self.members: list[GroupConsumer] = [self._member(ConfluentMember, name) for name in instances]
        self.goes_on()

    def _member(self, protocol: type[GroupConsumer], instance_id: str | None) -> GroupConsumer:
        assignor = "uniform" if protocol is ConsumerProtocolMember else self.assignor
        return protocol(self.node.address, self.topic, self.id, assignor, instance_id)

    def restart(self, number: int, protocol: type[GroupConsumer]) -> None:
        self.members[number].close()
        self.gone.append(self.members[number])
        self.members[number] = self._member(protocol, self.instances[number])
        self.goes_on()

    def goes_on(self) -> None:
        """All have a part, together everything; and what is sent now is read."""
        each = PARTITIONS // len(self.members)
        until(
            lambda: (
                [len(member.assigned) for member in self.members] == [each] * len(self.members)
                and frozenset().union(*[member.assigned for member in self.members]) == frozenset(range(PARTITIONS))
            ),
            lambda: f"{[member.assigned for member in self.members]}\n{self.node.log()[-3000:]}",
        )
        records = [Sent(value=b"x", partition=number) for number in range(PARTITIONS)]
        Confluent().produce(self.node.address, self.topic, records)
        self.sent += 1
        places = {(partition, offset) for partition in range(PARTITIONS) for offset in range(self.sent)}
        until(lambda: self.received() == places, "all records are read")

    def received(self) -> set[tuple[int, int]]:
        return {place for member in (*self.gone, *self.members) for place in member.received}

    @property
    def type(self) -> str:
        listed = ask(self.node.address, asking.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
        (found,) = [row.group_type for row in listed if row.group_id == self.id]
        return str(found).lower()

    def close(self) -> None:
        for member in self.members:
            member.close()


@pytest.mark.parametrize(
    ("assignor", "instances"),
    [
        ("range", (None, None, None)),
        ("range", ("a", "b", "c")),
        # Not with dynamic members: from its second generation on librdkafka writes its sticky assignor's data into
        # assignments, and such a group cannot be upgraded, in Kafka as here.
        ("cooperative-sticky", ("a", "b", "c")),
    ],
)
def test_there_and_back(node: NodeProcess, assignor: str, instances: tuple[str | None, ...]) -> None:
    group = Group(node, assignor, *instances)
    assert group.type == "classic"
    for number in range(3):
        group.restart(number, ConsumerProtocolMember)
        assert group.type == "consumer"
    for number in range(3):
        assert group.type == "consumer"
        group.restart(number, ConfluentMember)
    assert group.type == "classic"
    group.close()
