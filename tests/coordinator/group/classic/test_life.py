"""Assignments, heartbeats, leaving; what is stored, lost and restored."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.coordinator.group.classic.given import GROUP, INITIAL_MS, REBALANCE_MS, SESSION_MS, START_MS, Coordinator

from ottla.coordinator.group.classic.records import StoredGroup, StoredMember, read_group
from ottla.coordinator.group.classic.requests import JoinAnswer, Leaving, SyncAnswer
from ottla.coordinator.group.events import (
    Cause,
    GroupEmptied,
    GroupLoaded,
    MemberExpired,
    MemberLeft,
    RebalanceCompleted,
    RebalanceStarted,
    SyncsMissed,
)
from ottla.model.errors import ErrorCode

NONE = ErrorCode.none


def gathered(members: int = 2) -> tuple[Coordinator, list[str]]:
    """All have joined; the leader, who is the first, is to assign."""
    coordinator = Coordinator()
    ids = [coordinator.new_member()[0] for _ in range(members)]
    coordinator.advance(2 * INITIAL_MS)
    assert coordinator.state == "CompletingRebalance"
    return coordinator, ids


class TestSyncing:
    def test_all_wait_for_the_leader_and_it_is_stored_first(self) -> None:
        coordinator, (leader, follower) = gathered()
        early = coordinator.sync(follower, 1)
        coordinator.holds = True
        brought = coordinator.sync(leader, 1, {leader: b"one", follower: b"two"})
        assert early.is_open and brought.is_open and coordinator.state == "CompletingRebalance"
        coordinator.commit()
        assert brought.answer == SyncAnswer(NONE, "consumer", "range", b"one")
        assert early.answer == SyncAnswer(NONE, "consumer", "range", b"two")
        assert coordinator.state == "Stable"
        value = coordinator.log[-1].value
        assert value is not None
        assert read_group(value) == StoredGroup(
            "consumer", 1, "range", leader, START_MS + 2 * INITIAL_MS,
            [
                StoredMember(leader, None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, b"r", b"one"),
                StoredMember(follower, None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, b"r", b"two"),
            ],
        )  # fmt: skip

    def test_whom_the_leader_forgets_gets_nothing(self) -> None:
        coordinator, (leader, follower) = gathered()
        coordinator.sync(leader, 1, {leader: b"one", "stranger": b"x"})
        assert coordinator.sync(follower, 1).answer.assignment == b""
        (completed,) = coordinator.noted(RebalanceCompleted)
        assert completed.without == (follower,)

    def test_a_late_follower_gets_it_at_once(self) -> None:
        coordinator, (leader, follower) = gathered()
        coordinator.sync(leader, 1, {follower: b"two"})
        assert coordinator.sync(follower, 1).answer.assignment == b"two"

    def test_who_never_asks_is_removed_after_the_rebalance_timeout(self) -> None:
        coordinator, (leader, follower) = gathered()
        coordinator.sync(leader, 1, {follower: b"two"})
        for _ in range(REBALANCE_MS // SESSION_MS * 2 - 1):
            coordinator.advance(SESSION_MS // 2)
            assert coordinator.heartbeat(leader, 1) is NONE
            assert coordinator.heartbeat(follower, 1) is NONE
        coordinator.advance(SESSION_MS // 2)
        assert coordinator.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress
        assert coordinator.heartbeat(follower, 1) is ErrorCode.unknown_member_id
        assert coordinator.noted(SyncsMissed)[0].member_ids == (follower,)

    @pytest.mark.parametrize(
        ("values", "error"),
        [
            ({"member_id": "stranger"}, ErrorCode.unknown_member_id),
            ({"generation": 0}, ErrorCode.illegal_generation),
            ({"generation": 2}, ErrorCode.illegal_generation),
            ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
            ({"protocol_name": "sticky"}, ErrorCode.inconsistent_group_protocol),
            ({"group_id": "elsewhere"}, ErrorCode.unknown_member_id),
            ({"instance_id": "unheard"}, ErrorCode.unknown_member_id),
        ],
    )
    def test_errors(self, values: dict[str, Any], error: ErrorCode) -> None:
        coordinator, (leader, _) = gathered()
        asked = coordinator.sync(**{"member_id": leader, "generation": 1, **values})
        assert asked.answer == SyncAnswer(error)
        right = coordinator.sync(leader, 1, protocol_type="consumer", protocol_name="range")
        assert right.answer.error is NONE

    def test_while_others_gather_one_has_to_join_again(self) -> None:
        coordinator, (leader, follower) = gathered()
        waiting = coordinator.sync(follower, 1)
        coordinator.new_member()
        assert waiting.answer == SyncAnswer(ErrorCode.rebalance_in_progress)
        assert coordinator.sync(leader, 1, {}).error is ErrorCode.rebalance_in_progress

    def test_an_empty_group_knows_nobody(self) -> None:
        coordinator = Coordinator()
        given = coordinator.join().answer.member_id
        assert coordinator.sync(given, 0).error is ErrorCode.unknown_member_id

    def test_what_could_not_be_stored_is_told_to_all_and_begun_again(self) -> None:
        coordinator, (leader, follower) = gathered()
        waiting = coordinator.sync(follower, 1)
        coordinator.holds = True
        brought = coordinator.sync(leader, 1, {leader: b"one"})
        coordinator.fail(ErrorCode.coordinator_not_available)
        assert {waiting.error, brought.error} == {ErrorCode.coordinator_not_available}
        assert coordinator.state == "PreparingRebalance"
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.ASSIGNMENT_NOT_STORED

    def test_an_assignment_is_void_if_someone_came_before_it_was_committed(self) -> None:
        coordinator, (leader, follower) = gathered()
        coordinator.holds = True
        brought = coordinator.sync(leader, 1, {follower: b"two"})
        coordinator.new_member()
        assert brought.error is ErrorCode.rebalance_in_progress
        coordinator.commit()
        assert coordinator.state == "PreparingRebalance"


class TestHeartbeats:
    def test_keep_a_session(self) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable()
        for _ in range(5):
            coordinator.advance(SESSION_MS - 1)
            assert coordinator.heartbeat(member, 1) is NONE
        coordinator.advance(SESSION_MS)
        assert coordinator.state == "Empty"
        (expired,) = coordinator.noted(MemberExpired)
        assert (expired.member_id, expired.session_timeout_ms) == (member, SESSION_MS)
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.MEMBER_EXPIRED

    def test_so_does_a_commit(self) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable()
        for _ in range(3):
            coordinator.advance(SESSION_MS - 1)
            coordinator.groups.heard(GROUP, member)
        assert coordinator.state == "Stable"

    def test_who_waits_need_not_send_any(self) -> None:
        coordinator = Coordinator()
        first, second = coordinator.stable(2)
        asked = coordinator.join(first)
        for _ in range(4):
            coordinator.advance(SESSION_MS - 1)
            coordinator.heartbeat(second, 1)
        assert asked.is_open
        coordinator.join(second)
        assert asked.error is NONE

    @pytest.mark.parametrize(
        ("member", "generation", "instance", "error"),
        [
            ("stranger", 1, None, ErrorCode.unknown_member_id),
            (None, 0, None, ErrorCode.illegal_generation),
            (None, 1, "unheard", ErrorCode.unknown_member_id),
        ],
    )
    def test_errors(self, member: str | None, generation: int, instance: str | None, error: ErrorCode) -> None:
        coordinator = Coordinator()
        assert coordinator.heartbeat("anyone", 1) is ErrorCode.unknown_member_id
        (known,) = coordinator.stable()
        assert coordinator.heartbeat(member or known, generation, instance) is error

    def test_between_joining_and_syncing(self) -> None:
        coordinator, (leader, _) = gathered()
        assert coordinator.heartbeat(leader, 1) is NONE


class TestLeaving:
    def test_the_last_one_leaves_an_empty_group(self) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable()
        coordinator.advance(1000)
        assert coordinator.leave(Leaving(member, reason="the consumer is being closed")) == [NONE]
        assert coordinator.state == "Empty"
        value = coordinator.log[-1].value
        assert value is not None
        assert read_group(value) == StoredGroup("consumer", 2, None, None, coordinator.now_ms, [])
        assert coordinator.alarms.names == []
        assert coordinator.noted(MemberLeft)[0].reason == "the consumer is being closed"
        assert len(coordinator.noted(GroupEmptied)) == 1

    def test_the_others_gather_again(self) -> None:
        coordinator = Coordinator()
        leader, follower = coordinator.stable(2)
        assert coordinator.leave(leader) == [NONE]
        assert coordinator.heartbeat(follower, 1) is ErrorCode.rebalance_in_progress
        told = coordinator.join(follower).answer
        assert (told.leader, told.generation) == (follower, 2)
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.MEMBER_LEFT

    def test_many_at_once_each_with_its_error(self) -> None:
        coordinator = Coordinator()
        first, second, third = coordinator.stable(3)
        coordinator.join(first)
        pending = coordinator.join().answer.member_id
        answers = coordinator.leave(second, "stranger", pending, Leaving("", "unheard"), Leaving(third, "unheard"))
        assert answers == [NONE, ErrorCode.unknown_member_id, NONE, *[ErrorCode.unknown_member_id] * 2]
        assert coordinator.leave(third) == [NONE]
        assert coordinator.group.generation == 2  # only the first is left, and it was waiting

    def test_one_that_waits_is_told(self) -> None:
        coordinator = Coordinator()
        member, asked = coordinator.new_member()
        assert coordinator.leave(member) == [NONE]
        assert asked.answer == JoinAnswer(ErrorCode.unknown_member_id)

    def test_so_is_one_that_waits_for_its_assignment(self) -> None:
        coordinator, (_, follower) = gathered()
        asked = coordinator.sync(follower, 1)
        coordinator.leave(follower)
        assert asked.answer == SyncAnswer(ErrorCode.unknown_member_id)

    def test_a_group_that_is_not_there(self) -> None:
        assert Coordinator().leave("a", "b") == [ErrorCode.unknown_member_id] * 2

    def test_an_id_that_nobody_came_with_keeps_no_one_waiting(self) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable()
        pending = coordinator.join().answer.member_id
        asked = coordinator.join(member)
        assert asked.is_open
        coordinator.leave(pending)
        assert asked.error is NONE


class TestAfterARestart:
    def test_members_go_on_as_if_nothing_had_happened(self) -> None:
        coordinator = Coordinator()
        leader, follower = coordinator.stable(2)
        before = coordinator.groups.describe(GROUP)
        coordinator.restart()
        assert coordinator.groups.describe(GROUP) == before
        assert coordinator.heartbeat(leader, 1) is NONE
        assert coordinator.sync(follower, 1).answer.assignment == follower.encode()
        assert coordinator.commit_offsets(follower, 1) is NONE
        assert coordinator.noted(GroupLoaded)[0].members == 2

    def test_whoever_is_gone_expires(self) -> None:
        coordinator = Coordinator()
        leader, follower = coordinator.stable(2)
        coordinator.restart()
        coordinator.advance(SESSION_MS - 1)
        coordinator.heartbeat(leader, 1)
        coordinator.advance(1)
        assert coordinator.heartbeat(follower, 1) is ErrorCode.unknown_member_id

    def test_those_who_wait_are_sent_away(self) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable()
        asked, syncing = coordinator.new_member()[1], None
        coordinator.restart()
        assert asked.error is ErrorCode.not_coordinator
        assert coordinator.heartbeat(member, 1) is NONE
        coordinator, (_, follower) = gathered()
        syncing = coordinator.sync(follower, 1)
        coordinator.restart()
        assert syncing.error is ErrorCode.not_coordinator
        assert coordinator.state == "Empty"  # as its last record says

    def test_an_assignment_that_was_not_committed_is_as_if_it_had_not_been(self) -> None:
        coordinator, (leader, _) = gathered()
        coordinator.holds = True
        brought = coordinator.sync(leader, 1, {leader: b"one"})
        coordinator.restart()
        assert brought.error is ErrorCode.not_coordinator
        assert coordinator.group.generation == 0

    def test_a_protocol_is_what_is_known_of_a_member(self) -> None:
        coordinator = Coordinator()
        coordinator.stable(1, protocols=[("range", b"r"), ("sticky", b"s")])
        coordinator.restart()
        assert coordinator.join(protocols=[("sticky", b"s")]).error is ErrorCode.inconsistent_group_protocol
        assert coordinator.join(protocols=[("range", b"s")]).error is ErrorCode.member_id_required


class TestDeleting:
    @pytest.mark.parametrize("make", ["nothing", "empty", "stable", "gathering"])
    def test_only_empty_groups(self, make: str) -> None:
        coordinator = Coordinator()
        if make == "empty":
            coordinator.leave(*coordinator.stable())
        elif make == "stable":
            coordinator.stable()
        elif make == "gathering":
            coordinator.new_member()
        expected = {"nothing": ErrorCode.group_id_not_found, "empty": NONE}
        assert coordinator.groups.check_delete(GROUP) is expected.get(make, ErrorCode.non_empty_group)

    def test_it_is_dead_then_and_comes_back_if_that_was_not_stored(self) -> None:
        from ottla.coordinator.machine import Outcome

        coordinator = Coordinator()
        coordinator.leave(*coordinator.stable())
        coordinator.holds = True
        coordinator.run(Outcome(None, [coordinator.groups.deletion(GROUP)]))
        assert coordinator.groups.get(GROUP) is None and coordinator.state == "Empty"
        coordinator.fail(ErrorCode.not_coordinator)
        assert coordinator.groups.get(GROUP) is not None
        coordinator.run(Outcome(None, coordinator.groups.deletion_if_empty(GROUP)))
        coordinator.commit()
        assert coordinator.state == "Dead" and not coordinator.groups.describe(GROUP).exists
        coordinator.restart()
        assert coordinator.groups.list() == []

    def test_a_group_whose_making_was_not_stored_is_not_there(self) -> None:
        coordinator = Coordinator()
        coordinator.holds = True
        member, asked = coordinator.new_member()
        coordinator.fail(ErrorCode.not_coordinator)
        assert coordinator.groups.get(GROUP) is None
        coordinator.holds = False
        coordinator.advance(10 * SESSION_MS)
        assert coordinator.join(member).error is ErrorCode.unknown_member_id
        assert asked.error is ErrorCode.not_coordinator


class TestCommits:
    @pytest.mark.parametrize(
        ("member", "generation", "state", "error"),
        [
            ("", -1, "nothing", NONE),
            ("x", 3, "nothing", ErrorCode.illegal_generation),
            ("", -1, "Empty", NONE),
            ("x", 0, "Empty", ErrorCode.unknown_member_id),
            ("", -1, "Stable", ErrorCode.unknown_member_id),
            ("x", 1, "Stable", ErrorCode.unknown_member_id),
            (None, 1, "Stable", NONE),
            (None, 0, "Stable", ErrorCode.illegal_generation),
            (None, -1, "Stable", ErrorCode.illegal_generation),
            (None, 1, "CompletingRebalance", ErrorCode.rebalance_in_progress),
            (None, 1, "PreparingRebalance", NONE),
        ],
    )
    def test_who_may(self, member: str | None, generation: int, state: str, error: ErrorCode) -> None:
        coordinator, known = Coordinator(), ""
        if state == "Empty":
            coordinator.leave(*coordinator.stable())
        elif state == "CompletingRebalance":
            coordinator, (known, _) = gathered()
        elif state != "nothing":
            (known,) = coordinator.stable()
            if state == "PreparingRebalance":
                coordinator.new_member()
        assert coordinator.commit_offsets(known if member is None else member, generation) is error

    def test_transactions_need_no_member_and_no_calm(self) -> None:
        coordinator, (leader, _) = gathered()
        assert coordinator.groups.check_commit(GROUP, "", None, -1, transactional=True) is NONE
        assert coordinator.groups.check_commit(GROUP, leader, None, 1, transactional=True) is NONE
        assert coordinator.groups.check_commit(GROUP, leader, None, 0, transactional=True) is (
            ErrorCode.illegal_generation
        )


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 3, len(topics)) + names + b"\xff\xff\xff\xffwhatever newer versions add"


class TestSubscriptions:
    @pytest.mark.parametrize(
        ("first", "second", "subscribed"),
        [
            (subscription("a"), subscription("b", "c"), {"a", "b", "c"}),
            (subscription("a"), b"nonsense", {"a", "b", "c", "d"}),  # then nothing can be ruled out
            (subscription("a"), b"\x00\x01\x00\x00\x00\x01\x00\x09short", {"a", "b", "c", "d"}),
        ],
    )
    def test_of_consumers_are_known(self, first: bytes, second: bytes, subscribed: set[str]) -> None:
        coordinator = Coordinator()
        joined = [coordinator.new_member(protocols=[("range", data)]) for data in (first, second)]
        coordinator.advance(2 * INITIAL_MS)
        coordinator.share(joined)
        for _ in range(2):
            assert {topic for topic in "abcd" if coordinator.group.is_subscribed_to(topic)} == subscribed
            coordinator.restart()

    def test_of_others_are_not(self) -> None:
        coordinator = Coordinator()
        coordinator.stable(protocol_type="connect")
        assert not coordinator.group.is_subscribed_to("a")

    def test_offsets_expire_by_the_commit_in_a_calm_group_and_by_its_end_in_an_empty_one(self) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable(protocols=[("range", subscription("a"))])
        assert coordinator.group.expires_from(77) == 77
        coordinator.join(protocols=[("range", subscription("a"))], takes_id_first=False)
        assert coordinator.group.expires_from(77) is None
        coordinator.restart()
        coordinator.leave(member)
        assert coordinator.group.expires_from(77) == coordinator.now_ms
        assert Coordinator().groups.ensure("simple").expires_from(77) == 77


def test_groups_are_listed_by_state() -> None:
    coordinator = Coordinator()
    coordinator.stable()
    coordinator.join(group_id="other")
    coordinator.groups.ensure("simple")
    coordinator.commit()
    listed = {group.group_id: (group.protocol_type, group.state) for group in coordinator.groups.list()}
    assert listed == {GROUP: ("consumer", "Stable"), "other": ("", "Empty"), "simple": ("", "Empty")}
    assert [group.group_id for group in coordinator.groups.list([" stable "])] == [GROUP]
    assert {group.group_id for group in coordinator.groups.list(["STABLE", "empty"])} == {GROUP, "other", "simple"}
    assert coordinator.groups.list(["none such"]) == []


def test_a_group_is_described() -> None:
    coordinator = Coordinator()
    assert coordinator.groups.describe(GROUP)[:6] == (GROUP, "Dead", "", "", (), False)
    (member,) = coordinator.stable()
    described = coordinator.groups.describe(GROUP)
    assert described[:4] == (GROUP, "Stable", "consumer", "range")
    assert described.members == [(member, None, ("client", "/127.0.0.1"), b"r", member.encode())]
    coordinator.new_member()
    described = coordinator.groups.describe(GROUP)
    assert described[1:4] == ("PreparingRebalance", "consumer", "")
    assert [shown.metadata for shown in described.members] == [b"", b""]
