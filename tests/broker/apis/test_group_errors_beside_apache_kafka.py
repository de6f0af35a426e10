"""What members of classic groups do wrong, with Apache Kafka and with this node: the same error for each."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask, create, topic_to_create
from tests.broker.apis.beside import Both, running_both
from tests.broker.apis.committing import await_coordinator, commit, delete

from ottla.model.errors import ErrorCode
from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
SETTINGS: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0, "auto_create_topics_enable": False}
SUBSCRIPTION = struct.pack(">hih", 0, 1, 6) + b"orders" + struct.pack(">i", -1)
LONGEST = 4096
"""`offset.metadata.max.bytes`"""


class Group:
    """Of one member, on one side; each answer as its error."""

    def __init__(self, address: str, name: str) -> None:
        self.address, self.name = address, name
        self.member, self.generation = "", -1

    def join(self, **other: Any) -> ErrorCode:
        given = {
            "group_id": self.name, "member_id": self.member, "group_instance_id": None,
            "session_timeout": timedelta(seconds=60), "rebalance_timeout": timedelta(seconds=30),
            "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": SUBSCRIPTION}], "reason": None,
        }  # fmt: skip
        version = other.pop("version", 9)
        answer = ask(self.address, asking.JOIN_GROUP, version, **given | other)
        if answer.error_code is ErrorCode.member_id_required:
            answer = ask(self.address, asking.JOIN_GROUP, version, **given | other | {"member_id": answer.member_id})
        if answer.error_code is ErrorCode.none:
            self.member, self.generation = answer.member_id, answer.generation_id
        code: ErrorCode = answer.error_code
        return code

    def sync(self, **other: Any) -> ErrorCode:
        given = {
            "group_id": self.name, "member_id": self.member, "group_instance_id": None,
            "generation_id": self.generation, "protocol_type": "consumer", "protocol_name": "range",
            "assignments": [{"member_id": self.member, "assignment": b""}],
        }  # fmt: skip
        code: ErrorCode = ask(self.address, asking.SYNC_GROUP, 5, **given | other).error_code
        return code

    def beat(self, **other: Any) -> ErrorCode:
        given = {
            "group_id": self.name, "member_id": self.member, "group_instance_id": None,
            "generation_id": self.generation,
        }  # fmt: skip
        code: ErrorCode = ask(self.address, asking.HEARTBEAT, 4, **given | other).error_code
        return code

    def leave(self, member: str, instance: str | None = None) -> tuple[ErrorCode, list[ErrorCode]]:
        who = [{"member_id": member, "group_instance_id": instance, "reason": None}]
        answer = ask(self.address, asking.LEAVE_GROUP, 5, group_id=self.name, member_id="", members=who)
        return answer.error_code, [each.error_code for each in answer.members]

    def commit(self, version: int = 9, **other: Any) -> Any:
        given: dict[str, Any] = {"generation": self.generation, "member": self.member}
        offsets = other.pop("offsets", {"orders": {0: 5}})
        return commit(self.address, self.name, offsets, version, **given | other)


def mistakes(group: Group) -> Iterator[tuple[str, Any]]:
    yield "an empty group", group.join(group_id="")
    yield "a session too short", group.join(session_timeout=timedelta(milliseconds=1))
    yield "a session too long", group.join(session_timeout=timedelta(hours=10))
    yield "no protocols", group.join(protocols=[])
    yield "no kind of protocol", group.join(protocol_type="")
    yield "a stranger joins a group that is not there", group.join(member_id="ghost")
    yield "a commit to a group that is not there", group.commit(generation=1, member="ghost")
    yield "the same of old", group.commit(8, generation=1, member="ghost")
    yield "a heartbeat to a group that is not there", group.beat(member_id="ghost", generation_id=1)
    yield "leaving a group that is not there", group.leave("ghost")
    yield "joined", group.join()
    yield "a commit before the assignment", group.commit()
    yield "synced", group.sync()
    yield from wrong_generations(group)
    yield "another kind of protocol", group.join(member_id="", protocol_type="connect")
    yield "nothing in common", group.join(member_id="", protocols=[{"name": "other", "metadata": SUBSCRIPTION}])
    yield "a stranger joins", group.join(member_id="ghost")
    yield "another's protocol in a sync", group.sync(protocol_name="roundrobin")
    yield "another kind in a sync", group.sync(protocol_type="connect")
    yield "a stranger leaves", group.leave("ghost")
    yield "an unknown instance leaves", group.leave("", "nobody")
    yield "offsets of a group with members", delete(group.address, group.name, {"orders": [0]}).error_code
    yield (
        "a group with members",
        ask(group.address, asking.DELETE_GROUPS, 2, groups_names=[group.name]).results[0].error_code,
    )
    yield from odd_commits(group)


def wrong_generations(group: Group) -> Iterator[tuple[str, Any]]:
    for generation in (-1, 0, group.generation + 1):
        yield f"heartbeat in {generation}", group.beat(generation_id=generation)
        yield f"sync in {generation}", group.sync(generation_id=generation)
        for version in (2, 8, 9):
            yield f"commit {version} in {generation}", group.commit(version, generation=generation)
    for other in ({"member_id": "ghost"}, {"group_instance_id": "nobody"}):
        yield f"heartbeat of {other}", group.beat(**other)
        yield f"sync of {other}", group.sync(**other)
    yield "a commit of a stranger", group.commit(member="ghost")
    yield "a commit of an unknown instance", group.commit(instance="nobody")
    yield "a commit of nobody", group.commit(generation=-1, member="")


def odd_commits(group: Group) -> Iterator[tuple[str, Any]]:
    for version in (2, 8, 9):
        for text in ("x" * LONGEST, "x" * (LONGEST + 1), "ö" * LONGEST, "\U0001f600" * (LONGEST // 2 + 1)):
            yield f"{version}: metadata of {len(text)} {text[0]}", group.commit(version, metadata=text)
        mixed = {"orders": {0: 1, 9: 1, -1: 1}, "absent": {0: 1}}
        yield f"{version}: unknown partitions", group.commit(version, offsets=mixed)
        yield f"{version}: unknown partitions, too long", group.commit(version, offsets=mixed, metadata="x" * 5000)
        yield f"{version}: a negative offset", group.commit(version, offsets={"orders": {1: -5}})
        yield f"{version}: no metadata", group.commit(version, metadata=None)


MALFORMED = {
    "nothing": b"",
    "half a version": b"\x00",
    "only a version": struct.pack(">h", 0),
    "a version from the future": struct.pack(">hih", 99, 1, 6) + b"orders" + struct.pack(">i", -1),
    "a negative version": struct.pack(">hih", -1, 1, 6) + b"orders" + struct.pack(">i", -1),
}
NOT_EXPECTED = {
    "more topics than there are": struct.pack(">hi", 0, 7),
    "minus one topics": struct.pack(">hi", 0, -1),
    "many topics": struct.pack(">hi", 1, 2**31 - 1),
    "a name that goes on": struct.pack(">hih", 0, 1, 99) + b"orders",
}
"""Sizes that cannot be. Apache Kafka's members wait in vain for an answer to these; here they are like the others."""


def malformed_subscriptions(group: Group) -> Iterator[tuple[str, Any]]:
    """They are between members; the broker looks into them only to know what a group reads."""
    yield from _with_each(group, MALFORMED)


def _with_each(group: Group, subscriptions: Mapping[str, bytes]) -> Iterator[tuple[str, Any]]:
    name = group.name
    for what, subscription in subscriptions.items():
        group.name, group.member, group.generation = f"{name} {what}", "", -1
        await_coordinator(group.address, group.name)
        yield f"{what}: joined", group.join(protocols=[{"name": "range", "metadata": subscription}])
        yield f"{what}: synced", group.sync(assignments=[{"member_id": group.member, "assignment": b"\x00"}])
        yield f"{what}: heartbeat", group.beat()
        yield f"{what}: committed", group.commit()
        yield f"{what}: offsets deleted", _deleted(delete(group.address, group.name, {"orders": [0], "other": [0]}))
        asked = {"groups": [group.name], "include_authorized_operations": False}
        (described,) = ask(group.address, asking.DESCRIBE_GROUPS, 5, **asked).groups
        yield f"{what}: described", (described.error_code, described.group_state, described.members[0].member_metadata)
        yield f"{what}: left", group.leave(group.member)


def _deleted(answer: Any) -> Any:
    return answer.error_code, [(topic.name, [row.error_code for row in topic.partitions]) for topic in answer.topics]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_both(tmp_path_factory, **SETTINGS) as both:
        for address in both:
            create(address, topic_to_create("orders", 3), topic_to_create("other", 1))
        yield both


@pytest.mark.parametrize("story", [mistakes, malformed_subscriptions])
def test_the_same_error(both: Both, story: Callable[[Group], Iterator[tuple[str, Any]]]) -> None:
    told = []
    for address in both:
        await_coordinator(address, story.__name__)
        told.append(dict(story(Group(address, story.__name__))))
    kafka, ottla = told
    assert ottla.keys() == kafka.keys()
    differ = {what: f"{ottla[what]} instead of {kafka[what]}" for what in kafka if ottla[what] != kafka[what]}
    assert not differ, differ


def test_sizes_that_cannot_be(both: Both) -> None:
    told = dict(_with_each(Group(both.ottla, "sizes"), NOT_EXPECTED))
    alike = dict(_with_each(Group(both.ottla, "alike"), {"nothing": b""}))
    for what, subscription in NOT_EXPECTED.items():
        for step in ("joined", "synced", "heartbeat", "committed", "offsets deleted", "left"):
            assert told[f"{what}: {step}"] == alike[f"nothing: {step}"], (what, step)
        assert told[f"{what}: described"][2] == subscription
