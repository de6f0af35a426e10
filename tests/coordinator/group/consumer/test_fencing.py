"""Who is told to go: wrong epochs, unknown members, instances of others, groups that are full or of another kind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group.classic.given import SESSION_MS
from tests.coordinator.group.consumer.given import GROUP, Coordinator, image_of

from ottla.coordinator.group.classic.requests import Client, JoinAnswer, JoinRequest, Protocol
from ottla.coordinator.group.consumer.core import Settings
from ottla.coordinator.group.consumer.members import AWAY
from ottla.coordinator.group.events import MemberFenced, MemberRefused, StaticMemberReplaced, StaticMemberWentAway
from ottla.model.errors import ErrorCode, KafkaError


def shared() -> Coordinator:
    """m1 is in epoch 3 with t-0 and t-1, which it had in epoch 2 already; m2 has the rest."""
    given = Coordinator(image=image_of(t=4), settings=Settings(assignment_interval_ms=0))
    given.join("m1")
    given.join("m2")
    given.beat("m1", 2)
    given.beat("m1", 2, owned={"t": [0, 1]})
    given.beat("m2", 3)
    return given


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (3, None, None),
        (2, {"t": [0, 1]}, None),  # the answer was lost
        (2, {"t": [1]}, None),
        (2, {}, None),
        (2, None, ErrorCode.fenced_member_epoch),
        (2, {"t": [0, 1, 2]}, ErrorCode.fenced_member_epoch),
        (2, {"u": [0]}, ErrorCode.fenced_member_epoch),
        (1, {}, ErrorCode.fenced_member_epoch),
        (4, {"t": [0, 1]}, ErrorCode.fenced_member_epoch),
    ],
)
def test_an_epoch_is_the_members_or_the_one_before(epoch: int, owned: Any, error: ErrorCode | None) -> None:
    given = shared()
    said = {} if owned is None else {"owned": owned}

    if error is None:
        assert given.beat("m1", epoch, **said).epoch == 3
        assert not given.noted(MemberFenced)
    else:
        assert given.error("m1", epoch, **said)[0] is error
        assert given.noted(MemberFenced)[0].member_id == "m1"


def test_a_member_that_joins_again_keeps_what_it_has() -> None:
    given = shared()

    told = given.join("m1")

    assert (told.epoch, given.told(told)) == (3, {"t": [0, 1]})


def test_who_is_not_known_is_told_so() -> None:
    given = Coordinator()
    assert given.error("m", 3) == (ErrorCode.group_id_not_found, f"Consumer group {GROUP} not found.")
    assert given.error("m", -1) == (ErrorCode.group_id_not_found, f"Group {GROUP} not found.")
    given.join("m1")
    assert given.error("m", 3) == (ErrorCode.unknown_member_id, f"Member m is not a member of group {GROUP}.")
    assert given.error("m", -1)[0] is ErrorCode.unknown_member_id
    assert given.error("m", -1, instance_id="i") == (ErrorCode.unknown_member_id, "Instance id i is unknown.")


def test_a_full_group_takes_nobody_but_those_who_are_in_it() -> None:
    given = Coordinator(max_size=2)
    given.join("m1")
    given.join("m2")

    error = given.error("m3", 0, topics=["t"], owned={}, rebalance_timeout_ms=1)

    assert error == (
        ErrorCode.group_max_size_reached,
        "The consumer group has reached its maximum capacity of 2 members.",
    )
    assert given.noted(MemberRefused)[0].member_id == "m3"
    assert given.join("m2").epoch == given.member("m2").epoch


def test_a_pattern_that_is_none_changes_nothing() -> None:
    given = Coordinator()

    error = given.error("m1", 0, pattern="(", owned={}, rebalance_timeout_ms=1)

    assert error == (
        ErrorCode.invalid_regular_expression,
        "SubscribedTopicRegex `(` is not a valid regular expression: missing closing ).",
    )
    assert (given.log, given.events, given.alarms.names) == ([], [], [])


# -- static members


def test_a_static_member_that_comes_back_gets_its_partitions_and_nobody_else_notices() -> None:
    given = Coordinator(image=image_of(t=4), settings=Settings(assignment_interval_ms=0))
    given.join("m1", instance_id="i1")

    assert given.go_away("m1", "i1")[:2] == ("m1", AWAY)
    told = given.join("m2", instance_id="i1")

    assert (told.epoch, given.told(told)) == (2, {"t": [0, 1, 2, 3]})
    assert (given.group.epoch, list(given.group.members)) == (2, ["m2"])
    assert given.noted(StaticMemberWentAway)[0].member_id == "m1"
    (replaced,) = given.noted(StaticMemberReplaced)
    assert (replaced.old_member_id, replaced.member_id, replaced.rebalances) == ("m1", "m2", False)
    given.advance(44_999)  # the session of its former self runs out, and nothing comes of it
    assert list(given.group.members) == ["m2"]


def test_one_that_does_not_come_back_is_removed() -> None:
    given = Coordinator()
    given.join("m1", instance_id="i1")
    given.go_away("m1", "i1")

    given.advance(45_000)

    assert given.state == "Empty"
    assert given.group.counts.instances == {}


def test_an_instance_is_not_taken_from_a_member_that_is_there() -> None:
    given = Coordinator()
    given.join("m1", instance_id="i1")

    code, message = given.error("m2", 0, topics=["t"], owned={}, rebalance_timeout_ms=1, instance_id="i1")

    assert code is ErrorCode.unreleased_instance_id
    assert message == (
        "Static member m2 with instance id i1 cannot join the group because the instance id is owned by m1 member."
    )


@pytest.mark.parametrize("epoch", [2, -1, -2])
def test_the_former_self_of_an_instance_is_fenced(epoch: int) -> None:
    given = Coordinator()
    given.join("m1", instance_id="i1")
    given.go_away("m1", "i1")
    given.join("m2", instance_id="i1")

    error = given.error("m1", epoch, instance_id="i1")

    assert error == (
        ErrorCode.fenced_instance_id,
        "Static member m1 with instance id i1 was fenced by member m2.",
    )
    assert given.noted(MemberFenced)[0].instance_id == "i1"


def test_while_it_is_away_its_heartbeats_do_not_count() -> None:
    given = Coordinator()
    given.join("m1", instance_id="i1")
    given.go_away("m1", "i1")

    assert given.error("m1", 2, instance_id="i1")[0] is ErrorCode.fenced_member_epoch


# -- the other kind


def join_classic(given: Coordinator, member_id: str = "") -> list[JoinAnswer]:
    told: list[JoinAnswer] = []
    request = JoinRequest(
        GROUP, member_id, None, Client("c", "/h"), "consumer", (Protocol("range", b""),), SESSION_MS, SESSION_MS
    )
    given.run(given.classic.join(request, told.append))
    return told


def test_an_empty_classic_group_becomes_a_consumer_group_when_a_consumer_joins() -> None:
    given = Coordinator()
    join_classic(given)
    assert [group.type for group in given.classic.list()] == ["classic"]

    given.join("m1")

    assert not given.classic.has(GROUP)
    assert [(group.group_id, group.state, group.type) for group in given.groups.list()] == [
        (GROUP, "Stable", "consumer")
    ]


def test_and_the_other_way_round() -> None:
    given = Coordinator()
    given.join("m1")
    assert join_classic(given)[0].error is ErrorCode.inconsistent_group_protocol
    given.leave("m1")

    assert join_classic(given, "someone")[0].error is ErrorCode.unknown_member_id
    assert join_classic(given)[0].error is ErrorCode.member_id_required

    assert given.classic.has(GROUP) and not given.groups.has(GROUP)
    given.restart()
    assert given.classic.has(GROUP) and not given.groups.has(GROUP)


def test_a_group_of_the_other_kind_is_not_found() -> None:
    given = Coordinator()
    join_classic(given)
    with pytest.raises(KafkaError, match="is not a consumer group"):
        given.groups.describe(GROUP)
    given.join("m1")
    assert given.classic.describe(GROUP).why_absent == f"Group {GROUP} is not a classic group."
