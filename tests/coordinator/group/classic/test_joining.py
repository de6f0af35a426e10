"""Who comes into a group, and when a generation begins."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group.classic.given import INITIAL_MS, REBALANCE_MS, SESSION_MS, START_MS, Coordinator

from ottla.coordinator.group.classic.records import StoredGroup, read_group
from ottla.coordinator.group.classic.requests import JoinAnswer, JoinedMember
from ottla.coordinator.group.events import Cause, JoinsCompleted, MemberExpired, RebalanceStarted
from ottla.model.errors import ErrorCode

NONE = ErrorCode.none


def stored(coordinator: Coordinator) -> StoredGroup:
    value = coordinator.log[-1].value
    assert value is not None
    return read_group(value)


def test_a_new_member_is_given_an_id_first() -> None:
    coordinator = Coordinator()
    told: JoinAnswer = coordinator.join(client="app").answer
    assert told == JoinAnswer(ErrorCode.member_id_required, "app-id1")
    assert coordinator.state == "Empty"
    assert stored(coordinator) == StoredGroup("", 0, None, None, START_MS, [])
    again = coordinator.join("app-id1", client="app")
    assert again.is_open and coordinator.state == "PreparingRebalance"
    coordinator.advance(INITIAL_MS)
    assert again.answer == JoinAnswer(
        NONE, "app-id1", 1, "consumer", "range", "app-id1", False, [JoinedMember("app-id1", None, b"r")]
    )


@pytest.mark.parametrize("name", ["x" * 32_767, "ö" * 16_383, "𝄞" * 8191])
@pytest.mark.parametrize("is_static", [False, True])
def test_an_id_is_never_too_long_to_be_stored(name: str, is_static: bool) -> None:
    coordinator = Coordinator()
    asked = coordinator.join(client=name, instance_id=name if is_static else None, takes_id_first=False)
    coordinator.advance(INITIAL_MS)
    member_id = asked.answer.member_id
    assert 32_760 <= len(member_id.encode()) <= 32_767 and member_id.endswith("-id1")
    synced = coordinator.sync(member_id, 1, {member_id: b"all"}, instance_id=name if is_static else None)
    assert synced.answer.error is NONE
    assert [member.member_id for member in stored(coordinator).members] == [member_id]


def test_old_clients_come_in_without_one() -> None:
    coordinator = Coordinator()
    asked = coordinator.join(takes_id_first=False)
    coordinator.advance(INITIAL_MS)
    assert asked.answer.member_id == "client-id1"


class TestTheFirstRebalance:
    def test_waits_for_others_as_long_as_they_keep_coming(self) -> None:
        coordinator = Coordinator()
        asked = [coordinator.new_member()[1]]
        for _ in range(3):
            coordinator.advance(INITIAL_MS - 1)
            asked.append(coordinator.new_member()[1])
        assert all(one.is_open for one in asked)
        coordinator.advance(2 * INITIAL_MS)
        assert [one.answer.generation for one in asked] == [1] * 4
        assert [len(one.answer.members) for one in asked] == [4, 0, 0, 0]

    def test_but_not_longer_than_their_rebalance_timeout(self) -> None:
        coordinator = Coordinator()
        asked = [coordinator.new_member(rebalance_ms=2 * INITIAL_MS)[1]]
        for _ in range(20):
            coordinator.advance(INITIAL_MS // 3)
            if not asked[0].is_open:
                break
            asked.append(coordinator.new_member(rebalance_ms=2 * INITIAL_MS)[1])
        assert asked[0].answer.error is NONE
        assert coordinator.now_ms - START_MS == 2 * INITIAL_MS

    def test_can_be_told_not_to_wait(self) -> None:
        coordinator = Coordinator(initial_rebalance_delay_ms=0)
        _, asked = coordinator.new_member()
        coordinator.advance(1)
        assert asked.answer.error is NONE


class TestProtocols:
    @pytest.mark.parametrize(
        ("first", "second", "chosen"),
        [
            (["range"], ["range"], "range"),
            (["range", "roundrobin"], ["roundrobin"], "roundrobin"),
            (["sticky", "range"], ["range", "sticky"], "sticky"),
            (["a", "b", "c"], ["c", "b"], "b"),
        ],
    )
    def test_one_that_all_know_by_votes(self, first: list[str], second: list[str], chosen: str) -> None:
        coordinator = Coordinator()
        asked = [coordinator.new_member(protocols=[(name, b"") for name in names])[1] for names in (first, second)]
        coordinator.advance(2 * INITIAL_MS)
        assert {one.answer.protocol_name for one in asked} == {chosen}

    def test_the_majority_wins(self) -> None:
        coordinator = Coordinator()
        wishes = [["range", "sticky"], ["sticky", "range"], ["sticky", "range"]]
        asked = [coordinator.new_member(protocols=[(name, b"") for name in names])[1] for names in wishes]
        coordinator.advance(2 * INITIAL_MS)
        assert asked[0].answer.protocol_name == "sticky"

    @pytest.mark.parametrize(
        "values",
        [
            {"protocols": [("other", b"")]},
            {"protocol_type": "connect"},
            {"protocols": []},
            {"protocol_type": ""},
        ],
    )
    def test_who_shares_none_is_refused(self, values: dict[str, Any]) -> None:
        coordinator = Coordinator()
        (member,) = coordinator.stable()
        assert coordinator.join(**values).answer == JoinAnswer(ErrorCode.inconsistent_group_protocol)
        assert coordinator.join(member, **values).error is ErrorCode.inconsistent_group_protocol
        assert coordinator.state == "Stable"

    @pytest.mark.parametrize("values", [{"protocols": []}, {"protocol_type": ""}])
    def test_nothing_is_no_protocol_in_an_empty_group_either(self, values: dict[str, Any]) -> None:
        coordinator = Coordinator()
        assert coordinator.join(**values).error is ErrorCode.inconsistent_group_protocol
        assert coordinator.state == "Empty"  # as on Kafka it is there from now on

    def test_an_empty_group_takes_another_type(self) -> None:
        coordinator = Coordinator()
        coordinator.leave(*coordinator.stable())
        _, asked = coordinator.new_member(protocol_type="connect", protocols=[("v1", b"")])
        coordinator.advance(INITIAL_MS)
        assert asked.answer.protocol_type == "connect"


class TestComingAgain:
    def test_with_an_id_of_nowhere(self) -> None:
        coordinator = Coordinator()
        assert coordinator.join("nobody").answer == JoinAnswer(ErrorCode.unknown_member_id, "nobody")
        assert coordinator.log == []
        coordinator.stable()
        assert coordinator.join("nobody").answer == JoinAnswer(ErrorCode.unknown_member_id, "nobody")

    def test_an_id_that_was_given_expires_with_the_session(self) -> None:
        coordinator = Coordinator()
        coordinator.stable()
        given = coordinator.join().answer.member_id
        for _ in range(2):
            coordinator.advance(SESSION_MS // 2 + 1)
            coordinator.heartbeat(coordinator.group.leader or "", 1)
        assert coordinator.join(given).error is ErrorCode.unknown_member_id
        assert coordinator.state == "Stable"

    def test_a_follower_that_missed_the_answer_gets_it_again(self) -> None:
        coordinator = Coordinator()
        leader, follower = coordinator.stable(2)
        told = coordinator.join(follower).answer
        assert told == JoinAnswer(NONE, follower, 1, "consumer", "range", leader)
        assert coordinator.state == "Stable"

    def test_and_a_leader_before_it_has_assigned(self) -> None:
        coordinator = Coordinator()
        (leader, _), _ = (coordinator.new_member() for _ in range(2))
        coordinator.advance(2 * INITIAL_MS)
        assert len(coordinator.join(leader).answer.members) == 2
        assert coordinator.state == "CompletingRebalance"

    def test_a_leader_can_have_the_work_shared_out_anew(self) -> None:
        coordinator = Coordinator()
        leader, follower = coordinator.stable(2)
        asked = coordinator.join(leader, reason="partitions were added")
        assert asked.is_open and coordinator.state == "PreparingRebalance"
        assert coordinator.heartbeat(follower, 1) is ErrorCode.rebalance_in_progress
        assert coordinator.join(follower).answer.generation == 2
        assert asked.answer.generation == 2
        (_, started) = coordinator.noted(RebalanceStarted)
        assert (started.cause, started.reason) == (Cause.LEADER_REJOINED, "partitions were added")

    @pytest.mark.parametrize("phase", ["Stable", "CompletingRebalance"])
    def test_another_subscription_begins_a_rebalance(self, phase: str) -> None:
        coordinator = Coordinator()
        if phase == "Stable":
            leader, follower = coordinator.stable(2)
        else:
            (leader, _), (follower, _) = (coordinator.new_member() for _ in range(2))
            coordinator.advance(2 * INITIAL_MS)
        assert coordinator.state == phase
        coordinator.join(follower, protocols=[("range", b"new")])
        assert coordinator.state == "PreparingRebalance"
        told = coordinator.join(leader).answer
        assert [member.metadata for member in told.members] == [b"r", b"new"]
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.MEMBER_CHANGED

    def test_who_does_not_is_dropped_when_the_time_is_up(self) -> None:
        coordinator = Coordinator()
        leader, follower = coordinator.stable(2)
        _, newcomer = coordinator.new_member()
        rejoined = coordinator.join(follower)
        for _ in range(REBALANCE_MS // SESSION_MS * 2 - 1):
            coordinator.advance(SESSION_MS // 2)
            assert coordinator.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress  # alive, but not joining
        assert newcomer.is_open
        coordinator.advance(SESSION_MS // 2)
        assert newcomer.answer.generation == rejoined.answer.generation == 2
        assert rejoined.answer.leader == follower
        assert coordinator.heartbeat(leader, 1) is ErrorCode.unknown_member_id
        completed = coordinator.noted(JoinsCompleted)[-1]
        assert (completed.dropped, completed.took_ms, completed.members) == ((leader,), REBALANCE_MS, 2)

    def test_a_newcomer_that_is_gone_does_not_wait_forever(self) -> None:
        coordinator = Coordinator()
        coordinator.stable(1, session_ms=1_800_000, rebalance_ms=1_800_000)
        newcomer, asked = coordinator.new_member(rebalance_ms=1_800_000)
        coordinator.advance(5 * 60_000 - 1)
        assert asked.is_open
        coordinator.advance(1)
        assert asked.answer == JoinAnswer(ErrorCode.unknown_member_id)
        (expired,) = coordinator.noted(MemberExpired)
        assert expired.member_id == newcomer and expired.was_joining


class TestTheLargestSize:
    def test_of_a_group_that_is_stable(self) -> None:
        coordinator = Coordinator(max_size=2)
        first, _ = coordinator.stable(2)
        assert coordinator.join().answer == JoinAnswer(ErrorCode.group_max_size_reached)
        assert coordinator.join(first).is_open  # who is in, may

    def test_while_members_gather(self) -> None:
        coordinator = Coordinator(max_size=2)
        _, kept = coordinator.new_member()
        coordinator.new_member()
        assert coordinator.join(takes_id_first=False).error is ErrorCode.group_max_size_reached
        coordinator.advance(2 * INITIAL_MS)
        assert len(kept.answer.members) == 2

    def test_a_group_loaded_with_more_loses_the_last_to_come(self) -> None:
        coordinator = Coordinator()
        members = coordinator.stable(3)
        coordinator.restart(max_size=2)
        assert coordinator.state == "PreparingRebalance"
        assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.OVER_CAPACITY
        asked = [coordinator.join(member) for member in members]
        assert asked[2].error is ErrorCode.group_max_size_reached
        coordinator.advance(REBALANCE_MS)
        assert [one.answer.generation for one in asked[:2]] == [2, 2]
