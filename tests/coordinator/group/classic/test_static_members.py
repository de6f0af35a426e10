"""Members with an instance id (KIP-345): they may go and come back without disturbing anyone."""

from __future__ import annotations

import pytest
from tests.coordinator.group.classic.given import INITIAL_MS, REBALANCE_MS, SESSION_MS, Asked, Coordinator

from ottla.coordinator.group.classic.requests import JoinAnswer, Leaving, SyncAnswer
from ottla.coordinator.group.events import (
    Cause,
    MemberFenced,
    NobodyJoined,
    RebalanceStarted,
    StaticMemberReplaced,
)
from ottla.model.errors import ErrorCode

NONE = ErrorCode.none


def two(coordinator: Coordinator) -> list[str]:
    """A leader `a` and a follower `b`."""
    joined: list[tuple[str, Asked]] = [coordinator.new_member(instance_id=name) for name in "ab"]
    coordinator.advance(2 * INITIAL_MS)
    return coordinator.share(joined)


def test_a_static_member_comes_in_at_once_under_its_own_name() -> None:
    coordinator = Coordinator()
    asked = coordinator.join(instance_id="a")
    coordinator.advance(INITIAL_MS)
    assert asked.answer.member_id == "a-id1"
    assert asked.answer.members == [("a-id1", "a", b"r")]


class TestComingBack:
    def test_a_follower_keeps_its_share(self) -> None:
        coordinator = Coordinator()
        leader, old = two(coordinator)
        told: JoinAnswer = coordinator.join(instance_id="b").answer
        new = told.member_id
        assert told == JoinAnswer(NONE, new, 1, "consumer", "range", leader)
        assert new != old and coordinator.state == "Stable"
        assert coordinator.sync(new, 1, instance_id="b").answer.assignment == old.encode()
        (replaced,) = coordinator.noted(StaticMemberReplaced)
        assert (replaced.old_member_id, replaced.member_id, replaced.rebalances) == (old, new, False)
        coordinator.restart()
        assert coordinator.heartbeat(new, 1, "b") is NONE
        assert coordinator.heartbeat(old, 1, "b") is ErrorCode.fenced_instance_id

    def test_a_leader_is_told_that_there_is_nothing_to_assign(self) -> None:
        coordinator = Coordinator()
        two(coordinator)
        told: JoinAnswer = coordinator.join(instance_id="a").answer
        assert told.leader == told.member_id and told.skip_assignment
        assert len(told.members) == 2

    def test_an_old_client_is_told_that_another_leads(self) -> None:
        coordinator = Coordinator()
        leader, _ = two(coordinator)
        told: JoinAnswer = coordinator.join(instance_id="a", can_skip_assignment=False).answer
        assert (told.leader, told.skip_assignment, told.members) == (leader, False, ())
        assert coordinator.group.leader == told.member_id

    def test_with_another_protocol_all_gather(self) -> None:
        coordinator = Coordinator()
        both = [("range", b""), ("sticky", b"")]
        joined = [coordinator.new_member(instance_id=name, protocols=both) for name in "ab"]
        coordinator.advance(2 * INITIAL_MS)
        coordinator.share(joined)
        asked = coordinator.join(instance_id="b", protocols=both[1:])
        assert asked.is_open and coordinator.state == "PreparingRebalance"
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.STATIC_MEMBER_CHANGED_PROTOCOL

    def test_while_the_leader_assigns_all_gather(self) -> None:
        coordinator = Coordinator()
        (_, _), (old, _) = (coordinator.new_member(instance_id=name) for name in "ab")
        coordinator.advance(2 * INITIAL_MS)
        waiting = coordinator.sync(old, 1, instance_id="b")
        assert coordinator.join(instance_id="b").is_open
        assert waiting.answer == SyncAnswer(ErrorCode.fenced_instance_id)
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.STATIC_MEMBER_RETURNED

    def test_while_others_gather_its_former_self_is_fenced(self) -> None:
        coordinator = Coordinator()
        old, first = coordinator.new_member(instance_id="a")
        second = coordinator.join(instance_id="a")
        assert first.answer == JoinAnswer(ErrorCode.fenced_instance_id, old)
        coordinator.advance(2 * INITIAL_MS)
        assert second.error is NONE

    def test_what_could_not_be_stored_is_as_before(self) -> None:
        coordinator = Coordinator()
        _, old = two(coordinator)
        coordinator.holds = True
        asked = coordinator.join(instance_id="b", session_ms=SESSION_MS * 2)
        assert asked.is_open
        coordinator.fail(ErrorCode.coordinator_not_available)
        assert asked.error is ErrorCode.coordinator_not_available
        assert asked.answer.member_id == ""
        assert coordinator.heartbeat(old, 1, "b") is NONE
        member = coordinator.group.members[old]
        assert (member.session_timeout_ms, member.assignment) == (SESSION_MS, old.encode())
        assert coordinator.group.waiting_joins == 0

    def test_after_its_session_it_is_a_new_member(self) -> None:
        coordinator = Coordinator()
        leader, _ = two(coordinator)
        for _ in range(2):
            coordinator.advance(SESSION_MS // 2)
            coordinator.heartbeat(leader, 1, "a")
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.MEMBER_EXPIRED
        assert coordinator.join(instance_id="b").is_open


class TestFencing:
    def test_who_uses_the_old_id(self) -> None:
        coordinator = Coordinator()
        _, old = two(coordinator)
        coordinator.join(instance_id="b")
        fenced = ErrorCode.fenced_instance_id
        assert coordinator.join(old, instance_id="b").answer == JoinAnswer(fenced, old)
        assert coordinator.sync(old, 1, instance_id="b").answer == SyncAnswer(fenced)
        assert coordinator.heartbeat(old, 1, "b") is fenced
        assert coordinator.leave(Leaving(old, "b")) == [fenced]
        assert coordinator.commit_offsets(old, 1, "b") is fenced
        assert coordinator.commit_offsets(old, 1) is ErrorCode.unknown_member_id
        operations = [event.operation for event in coordinator.noted(MemberFenced)]
        assert operations == ["join", "sync", "heartbeat", "leave"]


class TestLeaving:
    def test_an_administrator_needs_no_member_id(self) -> None:
        coordinator = Coordinator()
        leader, _ = two(coordinator)
        assert coordinator.leave(Leaving("", "b"), Leaving("", "c")) == [NONE, ErrorCode.unknown_member_id]
        assert coordinator.heartbeat(leader, 1, "a") is ErrorCode.rebalance_in_progress
        assert list(coordinator.group.instances) == ["a"]

    @pytest.mark.parametrize("sessions_end", [False, True])
    def test_static_members_keep_their_place_in_a_rebalance_that_they_miss(self, sessions_end: bool) -> None:
        coordinator = Coordinator()
        session_ms = 2 * REBALANCE_MS if not sessions_end else SESSION_MS
        joined = [coordinator.new_member(instance_id=name, session_ms=session_ms) for name in "ab"]
        coordinator.advance(2 * INITIAL_MS)
        coordinator.share(joined)
        coordinator.join(joined[0][0], instance_id="a", session_ms=session_ms)
        coordinator.advance(SESSION_MS if sessions_end else REBALANCE_MS)
        assert len(coordinator.group.members) == (1 if sessions_end else 2)
        assert coordinator.group.generation == 2

    def test_a_rebalance_to_which_nobody_comes_goes_on_until_the_sessions_end(self) -> None:
        coordinator = Coordinator()
        joined = [coordinator.new_member(instance_id=name, session_ms=2 * REBALANCE_MS) for name in "ab"]
        coordinator.advance(2 * INITIAL_MS)
        ids = coordinator.share(joined)
        coordinator.join(takes_id_first=False)
        newcomer = next(member for member in coordinator.group.members if member not in ids)
        coordinator.leave(newcomer)
        coordinator.advance(REBALANCE_MS)
        assert len(coordinator.noted(NobodyJoined)) == 1
        assert coordinator.state == "PreparingRebalance" and coordinator.group.generation == 1
        coordinator.advance(REBALANCE_MS)
        assert coordinator.state == "Empty"
