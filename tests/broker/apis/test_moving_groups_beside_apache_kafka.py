"""Groups that change their protocol, with Apache Kafka and with this node: members of both kinds are told the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask, create, topic_to_create
from tests.broker.apis.beside import Both, running_both
from tests.broker.apis.committing import await_coordinator, commit
from tests.broker.apis.consuming import Place
from tests.coordinator.group.migration.given import subscription
from tests.waiting import until

from ottla.coordinator.group.classic.embedded_protocol import read_assignment, write_assignment
from ottla.model.errors import ErrorCode
from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
SETTINGS: dict[str, Any] = {
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_max_size": 4,
    "group_initial_rebalance_delay_ms": 0,
    "auto_create_topics_enable": False,
}
Story = Callable[[Place], Iterator[Any]]
STORIES: dict[str, Story] = {}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_both(tmp_path_factory, **SETTINGS) as both:
        for address in both:
            create(address, topic_to_create("t", 4), topic_to_create("u", 2))
            _await_all_coordinators(address)
        yield both


def _await_all_coordinators(address: str) -> None:
    """Until no part of them is being loaded any more: before that nobody can list groups."""
    await_coordinator(address, "any")
    until(lambda: ask(address, asking.LIST_GROUPS, 5, states_filter=[], types_filter=[]).error_code is ErrorCode.none)


def story(tell: Story) -> Story:
    STORIES[tell.__name__] = tell
    return tell


@pytest.mark.parametrize("name", STORIES)
def test_members_are_told_the_same(both: Both, name: str) -> None:
    told = []
    for address in (both.kafka, both.ottla):
        await_coordinator(address, name)
        told.append(list(STORIES[name](Place(address, "t", "u"))))
    for step, (theirs, ours) in enumerate(zip(*told, strict=True)):
        assert ours == theirs, f"step {step} of {name}:\n{ours}\n{theirs}"


class Classic:
    """A classic member by hand; its id, which is random, is called `mine` in what it is told."""

    def __init__(self, place: Place, group: str, instance: str | None = None) -> None:
        self.place = place
        self.group = group
        self.instance = instance
        self.id = ""
        self.generation = -1

    def _ask(self, api: int, version: int, **values: Any) -> Any:
        given = {"group_id": self.group, "member_id": self.id, "group_instance_id": self.instance}
        return ask(self.place.address, api, version, **given | values)

    def join(
        self,
        owned: Mapping[str, Sequence[int]] | None = None,
        topics: Sequence[str] = ("t",),
        version: int = 9,
        **values: Any,
    ) -> Any:
        metadata = subscription(topics, {name: list(numbers) for name, numbers in (owned or {}).items()})
        given = {
            "session_timeout": timedelta(seconds=30), "rebalance_timeout": timedelta(seconds=30), "reason": None,
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": metadata}],
        }  # fmt: skip
        answer = self._ask(asking.JOIN_GROUP, version, **given | values)
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.id = answer.member_id
        if answer.error_code is ErrorCode.none:
            self.generation = answer.generation_id
        members = [self._named(member.member_id) for member in answer.members]
        return (
            answer.error_code.name, answer.generation_id, getattr(answer, "protocol_type", None),
            answer.protocol_name, self._named(answer.leader), self._named(answer.member_id), members,
            getattr(answer, "skip_assignment", None),
        )  # fmt: skip

    def sync(self, mine: Mapping[str, Sequence[int]] | None = None, **values: Any) -> Any:
        shares = [] if mine is None else [{"member_id": self.id, "assignment": write_assignment(1, mine)}]
        given = {
            "generation_id": self.generation, "protocol_type": "consumer", "protocol_name": "range",
            "assignments": shares,
        }  # fmt: skip
        answer = self._ask(asking.SYNC_GROUP, 5, **given | values)
        assigned = {name: sorted(numbers) for name, numbers in read_assignment(answer.assignment).places.items()}
        return answer.error_code.name, answer.protocol_type, answer.protocol_name, answer.assignment[:2], assigned

    def heartbeat(self, **values: Any) -> str:
        answer = self._ask(asking.HEARTBEAT, 4, **{"generation_id": self.generation} | values)
        return str(answer.error_code.name)

    def leave(self, *members: tuple[str, str | None]) -> Any:
        leaving = members or ((self.id, self.instance),)
        rows = [{"member_id": who, "group_instance_id": instance, "reason": None} for who, instance in leaving]
        answer = self._ask(asking.LEAVE_GROUP, 5, members=rows)
        told = [(self._named(row.member_id), row.group_instance_id, row.error_code.name) for row in answer.members]
        return answer.error_code.name, told

    def commit(self, **values: Any) -> Any:
        given: dict[str, Any] = {"member": self.id, "generation": self.generation, "instance": self.instance} | values
        return commit(self.place.address, self.group, {"t": {0: 7}}, **given)

    def enter(self) -> None:
        if self.instance is None:
            self.join()
        self.join()

    def _named(self, member_id: str) -> str:
        return "mine" if member_id and member_id == self.id else member_id


def alone(place: Place, group: str, instance: str | None = None) -> Classic:
    """A stable classic group of one that has everything."""
    member = Classic(place, group, instance)
    member.enter()
    member.sync({"t": [0, 1, 2, 3]})
    return member


def described(place: Place, group: str, *mine: Classic) -> Any:
    """What administrators see of it in either way."""
    names = {member.id: f"classic {number}" for number, member in enumerate(mine)}
    (classic,) = ask(
        place.address, asking.DESCRIBE_GROUPS, 6, groups=[group], include_authorized_operations=False
    ).groups
    members = sorted(
        (names.get(member.member_id, member.member_id), member.group_instance_id, member.member_metadata)
        for member in classic.members
    )
    consumer = place.describe(group)
    consumer["members"] = sorted((names.get(row[0], row[0]), *row[1:]) for row in consumer["members"])
    kinds = [row for row in place.listed() if row[0] == group]
    state = (classic.error_code.name, classic.error_message, classic.group_state, classic.protocol_type)
    return state, classic.protocol_data, members, consumer, kinds


@story
def a_classic_group_becomes_a_consumer_group(place: Place) -> Iterator[Any]:
    group = "a_classic_group_becomes_a_consumer_group"
    member = alone(place, group)
    yield described(place, group, member)
    yield place.join(group, "m1")
    yield described(place, group, member)
    yield member.heartbeat()
    yield member.sync()
    yield member.join({"t": [0, 1, 2, 3]})
    yield described(place, group, member)
    yield member.sync()
    yield member.heartbeat()
    yield member.join({"t": [0, 1]})
    yield member.sync()
    yield member.heartbeat()
    yield place.beat(group, "m1", 2)
    yield place.beat(group, "m1", 2, owned={"t": [2, 3]})
    yield described(place, group, member)
    yield member.leave()
    yield place.beat(group, "m1", 2)
    yield described(place, group)


@story
def and_a_classic_group_again(place: Place) -> Iterator[Any]:
    group = "and_a_classic_group_again"
    yield place.join(group, "m1")
    member = Classic(place, group)
    yield member.join()[0]
    yield len(member.id)
    yield member.join()
    yield member.sync()
    yield member.heartbeat()
    yield described(place, group, member)
    yield place.beat(group, "m1", 2)
    yield place.beat(group, "m1", 2, owned={"t": [0, 1]})
    yield member.heartbeat()
    yield member.join()
    yield member.sync()
    yield described(place, group, member)
    yield place.leave(group, "m1")
    yield described(place, group, member)
    yield member.heartbeat()
    yield member.sync()
    yield member.join({"t": [2, 3]})
    yield member.sync({"t": [0, 1, 2, 3]})
    yield described(place, group, member)
    yield place.beat(group, "m1", 3)
    yield member.leave()
    yield described(place, group)
    yield place.join(group, "m2")
    yield described(place, group)


@story
def what_a_classic_member_can_get_wrong(place: Place) -> Iterator[Any]:
    group = "what_a_classic_member_can_get_wrong"
    place.join(group, "m1")
    member = Classic(place, group)
    member.enter()
    for generation in (-1, 0, 2, 99):
        yield member.heartbeat(generation_id=generation)
        yield member.sync(generation_id=generation)
    for who in ("", "stranger", "m1"):
        yield member.heartbeat(member_id=who)
        yield member.sync(member_id=who)
    yield member.heartbeat(group_instance_id="none")
    yield member.sync(group_instance_id="none")
    yield member.join(group_instance_id="none")
    yield member.sync(protocol_type="connect")
    yield member.sync(protocol_name="roundrobin")
    yield member.sync(protocol_type=None, protocol_name=None)
    yield member.join(protocol_type="connect")
    yield member.join(protocols=[])
    yield member.join(protocols=[{"name": "other", "metadata": subscription(["t"])}])
    yield member.join(protocols=[{"name": "range", "metadata": b"?"}])
    yield member.join(topics=["t", "u", "not-there"])
    yield member.sync()
    yield place.beat(group, member.id, member.generation).error
    yield member.leave(("stranger", None), ("", "none"), ("", None))
    yield member.join(version=3)
    yield Classic(place, group).join(version=3)[0]
    yield Classic(place, group).join(version=3)[0]
    yield Classic(place, group).join()
    yield Classic(place, group, "static").join()


@story
def commits_of_classic_members(place: Place) -> Iterator[Any]:
    group = "commits_of_classic_members"
    place.join(group, "m1")
    member = Classic(place, group)
    member.enter()
    for version in (2, 5, 8, 9):
        for values in ({}, {"generation": 1}, {"generation": 99}, {"member": "stranger"}, {"member": "m1"}):
            yield member.commit(version=version, **values)


@story
def static_members_change_their_protocol(place: Place) -> Iterator[Any]:
    group = "static_members_change_their_protocol"
    member = alone(place, group, "one")
    yield place.join(group, "m1", instance="one")
    yield described(place, group, member)
    yield member.heartbeat()
    yield member.join()
    yield member.sync()
    yield member.leave()
    back = Classic(place, group, "one")
    yield back.join()
    yield described(place, group, back)
    yield back.sync()
    yield back.heartbeat()
    yield place.beat(group, "m1", 1, instance="one")
    yield place.join(group, "m2", instance="one")
    yield place.beat(group, "m2", 2, instance="one")
    yield place.beat(group, "m2", -2, instance="one")
    third = Classic(place, group, "one")
    yield third.join()
    yield third.sync()
    yield described(place, group, third)


@story
def an_administrator_removes_members(place: Place) -> Iterator[Any]:
    group = "an_administrator_removes_members"
    place.join(group, "m1", instance="consumer")
    member = Classic(place, group, "classic")
    member.enter()
    yield member.leave(("not it", "classic"))
    yield member.leave(("", "consumer"))
    yield described(place, group, member)
    yield member.leave(("", "classic"))
    yield described(place, group)


@story
def groups_that_cannot_move(place: Place) -> Iterator[Any]:
    group = "groups_that_cannot_move"
    other = Classic(place, group)
    other.join(protocol_type="connect")
    other.join(protocol_type="connect")
    yield place.join(group, "m1")
    yield place.beat(group, "m1", 3)
    other.leave()
    yield place.join(group, "m1")
    yield place.leave(group, "m1")
    malformed = Classic(place, group)
    malformed.join(protocols=[{"name": "range", "metadata": b"?"}])
    malformed.join(protocols=[{"name": "range", "metadata": b"?"}])
    yield place.join(group, "m1")
    malformed.leave()
    own = Classic(place, group)
    own.enter()
    share = write_assignment(1, {"t": [0]})[:-4] + b"\x00\x00\x00\x01x"
    own.sync(assignments=[{"member_id": own.id, "assignment": share}])
    yield place.join(group, "m1")
