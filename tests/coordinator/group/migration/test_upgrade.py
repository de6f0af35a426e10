"""The first consumer that comes to a classic group makes a consumer group of it, and its members go on."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group.consumer.given import GROUP, Consumer, image_of, parts
from tests.coordinator.group.migration.given import (
    FIRST_MS,
    NONE,
    SESSION_MS,
    ClassicMember,
    Coordinator,
    classic_group,
    code_of,
    subscription,
)

from ottla.coordinator.group.classic.group import State
from ottla.coordinator.group.classic.requests import Protocol
from ottla.coordinator.group.migration.policy import Policy
from ottla.coordinator.group.offset_records import CommittedOffset, OffsetKey, write_key, write_value
from ottla.coordinator.machine import StoredRecord
from ottla.model.errors import ErrorCode

REBALANCING = ErrorCode.rebalance_in_progress
FOUR = image_of(t=4)


def pair(coordinator: Coordinator, protocol: str = "range") -> tuple[ClassicMember, ClassicMember]:
    first, second = ClassicMember(coordinator, protocol=protocol), ClassicMember(coordinator, protocol=protocol)
    classic_group(coordinator, first, second, a={"t": [0, 1]}, b={"t": [2, 3]})
    return first, second


def test_the_group_goes_on_in_the_epoch_that_was_its_generation() -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = pair(coordinator)
    before = len(coordinator.log)

    answer = coordinator.join("new")

    # the classic group's end; members, epoch, targets, target epoch and assignments of those who were in it; then what
    # follows from the new one: itself, an epoch, its target and one that changed, their epoch, its assignment
    converted = [-2, 5, 5, 3, 7, 7, 6, 8, 8]
    assert coordinator.kinds(before)[: len(converted)] == converted
    assert coordinator.kinds(before)[len(converted) :] == [5, 3, 7, 7, 6, 8]
    assert not coordinator.is_classic()
    assert answer.epoch == first.generation + 1 == coordinator.group.epoch
    for member, has in ((first, [0, 1]), (second, [2, 3])):
        known = coordinator.member(member.id)
        assert (known.epoch, known.previous_epoch) == (1, 1)
        assert parts(known.assigned) == {"t": has}
        assert known.topics == {"t"}
        assert known.classic is not None and known.classic.session_timeout_ms == SESSION_MS
        assert known.classic.protocols == (Protocol("range", subscription(["t"])),)
    assert coordinator.has("new") == {}


@pytest.mark.parametrize("protocol", ["range", "cooperative-sticky"])
def test_members_of_both_protocols_share(protocol: str) -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = pair(coordinator, protocol)
    new = Consumer(coordinator, "new")

    for member in (first, second):
        assert member.heartbeat() is REBALANCING
        if protocol == "range":
            member.owned = {}
        told = member.join()
        assert (told.error, told.leader, told.members, told.protocol_name) == (NONE, "", (), protocol)
        assert member.sync().error is NONE
        if member.heartbeat() is REBALANCING:  # it has given up what it was not told to have
            member.join()
            member.sync()
        assert member.heartbeat() is NONE
    new.beat()

    assert (first.generation, second.generation, new.epoch) == (2, 2, 2)
    assert sorted([*first.owned["t"], *second.owned["t"], *new.owned["t"]]) == [0, 1, 2, 3]
    assert coordinator.state == "Stable"


def test_who_waits_for_the_classic_group_is_told_to_join_again() -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = pair(coordinator)
    joining = first.say_join()
    assert second.heartbeat() is REBALANCING

    coordinator.join("new")

    assert [(told.error, told.member_id) for told in joining] == [(REBALANCING, first.id)]
    assert first.join().error is NONE

    syncing = Coordinator(image=FOUR)
    first, second = ClassicMember(syncing), ClassicMember(syncing)
    classic_group(syncing, first, second)
    again = [first.say_join(), second.say_join()]
    first.take(again[0][0])
    second.take(again[1][0])
    waiting = second.say_sync()
    syncing.join("new")
    assert [told.error for told in waiting] == [REBALANCING]


def test_a_group_before_its_first_generation() -> None:
    """Kafka fails on it."""
    coordinator = Coordinator()
    member = ClassicMember(coordinator)
    member.join()
    waiting = member.say_join()

    assert coordinator.join("new").epoch == 1

    assert waiting[0].error is REBALANCING
    assert coordinator.member(member.id).topics == {"t"}


@pytest.mark.parametrize(
    ("policy", "members", "limits", "changed", "why"),
    [
        (Policy.DISABLED, 1, {}, {}, "online upgrade is disabled"),
        (Policy.DOWNGRADE, 1, {}, {}, "online upgrade is disabled"),
        (Policy.UPGRADE, 1, {}, {"protocol_type": "connect"}, "the group does not use the consumer embedded protocol"),
        (Policy.UPGRADE, 2, {"max_size": 1}, {}, "the group size exceeds the consumer group maximum size"),
        (
            Policy.UPGRADE, 1, {}, {"protocols": (Protocol("range", b"\x00\x01?"),)},
            "the embedded consumer protocol is malformed",
        ),
    ],
)  # fmt: skip
def test_refusals(policy: Policy, members: int, limits: dict[str, int], changed: dict[str, Any], why: str) -> None:
    coordinator = Coordinator(policy, **limits)
    people = [ClassicMember(coordinator) for _ in range(members)]
    waiting = []
    for member in people:
        (told,) = member.say_join(**changed)
        member.take(told)
        waiting.append(member.say_join(**changed))
    coordinator.advance(FIRST_MS)
    before = len(coordinator.log)

    error = coordinator.error("new", 0, topics=["t"], owned={}, rebalance_timeout_ms=1)

    message = f"Cannot upgrade classic group {GROUP} to consumer group because {why}."
    assert error == (ErrorCode.group_id_not_found, message)
    assert coordinator.is_classic() and len(coordinator.log) == before
    assert all(told.error is NONE for (told,) in waiting)


def test_an_assignor_of_ones_own_would_lose_what_it_says() -> None:
    coordinator = Coordinator()
    member = ClassicMember(coordinator)
    classic_group(coordinator, member, a={"t": [0]})
    stored = coordinator.classic_group.members[member.id]
    stored.assignment = stored.assignment[:-4] + b"\x00\x00\x00\x01x"

    code, message = coordinator.error("new", 0, topics=["t"], owned={}, rebalance_timeout_ms=1)

    assert code is ErrorCode.group_id_not_found
    assert message is not None and "an unsupported custom assignor is in use" in message


def test_only_who_joins_upgrades() -> None:
    coordinator = Coordinator()
    classic_group(coordinator, ClassicMember(coordinator))

    assert coordinator.error("new", 3) == (ErrorCode.group_id_not_found, f"Group {GROUP} is not a consumer group.")


@pytest.mark.parametrize("policy", Policy)
def test_an_empty_classic_group_gives_way_whatever_the_policy(policy: Policy) -> None:
    coordinator = Coordinator(policy)
    member = ClassicMember(coordinator)
    classic_group(coordinator, member, a={"t": [0]})
    member.leave()
    before = len(coordinator.log)

    assert coordinator.join("new").epoch == 2  # a new group is in epoch 1 and moves on

    assert coordinator.kinds(before)[:2] == [-2, 5]
    assert not coordinator.is_classic()


def test_offsets_without_a_group_stay_when_one_comes() -> None:
    coordinator = Coordinator()
    coordinator.owners.ensure(GROUP)
    record = StoredRecord(write_key(OffsetKey(GROUP, "t", 0)), write_value(CommittedOffset(7)))
    assert record.value is not None and coordinator.is_classic()

    coordinator.join("new")

    assert not coordinator.is_classic()


def test_an_upgrade_that_is_not_stored_has_not_been() -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = pair(coordinator)
    coordinator.holds = True
    coordinator.join("new")
    assert not coordinator.is_classic()

    coordinator.fail()
    coordinator.holds = False

    assert coordinator.is_classic() and coordinator.classic_group.state is State.STABLE
    assert (first.heartbeat(), second.heartbeat()) == (NONE, NONE)
    coordinator.advance(SESSION_MS - 1)
    assert first.heartbeat() is NONE
    coordinator.advance(SESSION_MS - 1)
    assert second.heartbeat() is ErrorCode.unknown_member_id


def test_it_is_the_same_after_a_restart() -> None:
    coordinator = Coordinator(image=FOUR)
    first, _ = pair(coordinator)
    coordinator.join("new")
    members = dict(coordinator.group.members.items())

    coordinator.restart()

    assert dict(coordinator.group.members.items()) == members
    assert first.heartbeat() is REBALANCING


def test_a_classic_member_is_awaited_for_its_own_session() -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = pair(coordinator)
    coordinator.join("new")

    coordinator.advance(SESSION_MS - 1)
    first.heartbeat()
    coordinator.advance(1)

    assert first.id in coordinator.group.members and second.id not in coordinator.group.members


def test_a_static_member_keeps_its_place_when_it_comes_back_as_a_consumer() -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = ClassicMember(coordinator, "one"), ClassicMember(coordinator, "two")
    classic_group(coordinator, first, second, a={"t": [0, 1]}, b={"t": [2, 3]})

    answer = coordinator.join("new", instance_id="one")

    assert coordinator.told(answer) == {"t": [0, 1]}
    assert set(coordinator.group.members) == {"new", second.id}
    assert code_of(first.heartbeat)[0] is ErrorCode.fenced_instance_id
    assert coordinator.group.epoch == answer.epoch == 1  # nothing has changed for anyone


def test_what_two_claim_is_the_first_ones() -> None:
    coordinator = Coordinator(image=FOUR)
    first, second = ClassicMember(coordinator), ClassicMember(coordinator)
    classic_group(coordinator, first, second, a={"t": [0, 1, 2]}, b={"t": [2, 1, 3]})

    coordinator.join("new")

    assert (coordinator.has(first.id), coordinator.has(second.id)) == ({"t": [0, 1, 2]}, {"t": [3]})
    second.leave()
    for _ in range(3):
        coordinator.advance(1500)
        coordinator.beat("new", coordinator.member("new").epoch)
    members = dict(coordinator.group.members.items())
    had = [number for member in members.values() for number in parts(member.assigned).get("t", [])]
    given_up = [number for member in members.values() for number in parts(member.revoking).get("t", [])]
    assert sorted(had + given_up) == [0, 1, 2, 3]
    owners = {number: owner for rows in coordinator.group.counts.owners.values() for number, owner in rows.items()}
    assert all(owners[number] == first.id for number in given_up)


@pytest.mark.parametrize("number", [-1, -5, 4, 77, 2**31 - 1])
@pytest.mark.parametrize("topics", [("t",), ("t", "u")])
def test_partitions_that_are_not_there_are_nobodys(number: int, topics: tuple[str, ...]) -> None:
    coordinator = Coordinator(image=image_of(t=4, u=2))
    member = ClassicMember(coordinator)
    classic_group(coordinator, member, a={"t": [0, number], "gone": [0]})

    new = Consumer(coordinator, "new", topics)

    assert coordinator.has(member.id) == {"t": [0]}
    for _ in range(8):
        coordinator.advance(1500)
        if member.heartbeat() is REBALANCING:
            member.join()
            member.sync()
        new.beat()
    assert coordinator.state == "Stable"
    assert sorted(member.owned.get("t", []) + new.owned.get("t", [])) == [0, 1, 2, 3]
    assert new.owned.get("u", []) == ([0, 1] if "u" in topics else [])
