"""Members share the partitions of their topics: epochs, targets, and the way from one to the next."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group.consumer.given import (
    GROUP,
    REBALANCE_MS,
    Consumer,
    Coordinator,
    image_of,
    topic_id,
)

from ottla.coordinator.group.consumer.core import Settings
from ottla.coordinator.group.consumer.members import MemberState
from ottla.coordinator.group.events import (
    Cause,
    EpochBumped,
    GroupEmptied,
    GroupReconciled,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RevocationAcknowledged,
    RevocationAsked,
    RevocationMissed,
    TargetComputed,
)
from ottla.model.errors import ErrorCode

AT_ONCE = Settings(assignment_interval_ms=0)


def coordinator(**more: Any) -> Coordinator:
    return Coordinator(**{"settings": AT_ONCE, "image": image_of(t=4, u=2), **more})


def test_the_first_member_gets_everything_with_its_first_heartbeat() -> None:
    given = coordinator()

    told = given.join("m1")

    assert (told.epoch, told.heartbeat_interval_ms, given.told(told)) == (2, 5000, {"t": [0, 1, 2, 3]})
    assert (given.state, given.group.epoch, given.group.target.now.epoch) == ("Stable", 2, 2)
    assert [event.cause for event in given.noted(EpochBumped)] == [Cause.MEMBER_JOINED]
    assert given.noted(MemberJoined)[0].subscription == ("t",)
    assert len(given.noted(TargetComputed)) == len(given.noted(GroupReconciled)) == 1


def test_a_heartbeat_that_says_nothing_new_writes_nothing_and_is_told_nothing() -> None:
    given = coordinator()
    given.join("m1")
    before = list(given.log), list(given.events)

    assert given.beat("m1", 2).assigned is None
    assert given.beat("m1", 2, owned={"t": [0, 1, 2, 3]}).assigned is None

    assert (given.log, given.events) == before


def test_one_that_says_everything_is_told_everything() -> None:
    given = coordinator()
    given.join("m1")

    told = given.beat("m1", 2, topics=["t"], owned={"t": [0]}, rebalance_timeout_ms=REBALANCE_MS)

    assert given.told(told) == {"t": [0, 1, 2, 3]}


def test_a_second_member_gets_its_share_when_the_first_has_given_it_up() -> None:
    given = coordinator()
    given.join("m1")

    assert given.told(given.join("m2")) == {}
    assert given.member("m2").state is MemberState.UNRELEASED_PARTITIONS
    assert given.state == "Reconciling"
    assert given.told(given.beat("m1", 2)) == {"t": [0, 1]}
    assert given.member("m1").state is MemberState.UNREVOKED_PARTITIONS
    assert given.beat("m2", 3).assigned is None
    assert given.beat("m1", 2, owned={"t": [0, 1, 2]}).epoch == 2
    assert given.beat("m1", 2, owned={"t": [0, 1]}).epoch == 3
    assert given.told(given.beat("m2", 3)) == {"t": [2, 3]}

    assert given.state == "Stable"
    assert [event.member_id for event in given.noted(RevocationAsked)] == ["m1"]
    assert given.noted(RevocationAcknowledged)[0].partitions == {topic_id("t"): {2: 2, 3: 2}}


def test_of_a_topic_that_is_not_wanted_any_more_the_member_keeps_its_epoch_until_it_has_given_it_up() -> None:
    given = coordinator()
    given.join("m1", ["t", "u"])

    told = given.beat("m1", 2, topics=["u"], owned={"t": [0, 1, 2, 3], "u": [0, 1]})
    assert (told.epoch, given.told(told)) == (2, {"u": [0, 1]})
    told = given.beat("m1", 2, owned={"u": [0, 1]})
    assert (told.epoch, given.has("m1")) == (3, {"u": [0, 1]})


def test_members_that_come_at_once_cause_two_assignments() -> None:
    given = Coordinator(image=image_of(t=8))
    for number in range(8):
        given.advance(1)
        given.join(f"m{number}")
    assert len(given.noted(TargetComputed)) == 1
    assert given.state == "Assigning"

    given.advance(1000)
    given.beat("m0", 2)

    assert len(given.noted(TargetComputed)) == 2
    assert given.group.target.now.epoch == given.group.epoch == 9


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
def test_all_partitions_have_one_owner_once_it_is_quiet(count: int) -> None:
    given = coordinator(image=image_of(t=4, u=3))
    consumers = {f"m{number}": Consumer(given, f"m{number}", ["t", "u"]) for number in range(count)}

    given.settle(consumers)

    owned = [(topic, part) for one in consumers.values() for topic, parts in one.owned.items() for part in parts]
    assert sorted(owned) == [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("u", 0), ("u", 1), ("u", 2)]
    assert given.state == "Stable"


def test_a_member_that_leaves_makes_room() -> None:
    given = coordinator()
    consumers = {name: Consumer(given, name) for name in ("m1", "m2")}
    given.settle(consumers)

    assert given.leave("m2")[:2] == ("m2", -1)
    assert given.state == "Assigning"
    assert given.told(given.beat("m1", consumers["m1"].epoch)) == {"t": [0, 1, 2, 3]}

    assert given.noted(EpochBumped)[-1].cause is Cause.MEMBER_LEFT
    assert given.noted(MemberLeft)[0].member_id == "m2"
    given.leave("m1")
    assert given.state == "Empty"
    assert len(given.noted(GroupEmptied)) == 1


def test_a_member_that_is_not_heard_of_is_removed() -> None:
    given = coordinator()
    given.join("m1")
    given.advance(44_999)
    given.beat("m1", 2)
    given.advance(44_999)
    assert given.state == "Stable"

    given.advance(1)

    assert given.state == "Empty"
    assert given.noted(MemberExpired)[0].session_timeout_ms == 45_000
    assert given.error("m1", 2)[0] is ErrorCode.unknown_member_id
    assert given.alarms.names == []


def test_a_member_that_does_not_give_up_its_partitions_is_removed_even_if_it_is_heard_of() -> None:
    given = coordinator()
    given.join("m1", rebalance_timeout_ms=20_000)
    given.join("m2")
    given.beat("m1", 2)
    for _ in range(4):
        given.beat("m1", 2)
        given.beat("m2", 3)
        given.advance(5000)

    assert given.error("m1", 2)[0] is ErrorCode.unknown_member_id
    assert given.noted(RevocationMissed)[0].rebalance_timeout_ms == 20_000
    assert given.noted(EpochBumped)[-1].cause is Cause.REVOCATION_MISSED


def test_one_that_does_in_time_stays() -> None:
    given = coordinator()
    given.join("m1", rebalance_timeout_ms=20_000)
    given.join("m2")
    given.beat("m1", 2)
    given.advance(19_999)
    given.beat("m1", 2, owned={"t": [0, 1]})
    given.advance(20_000)

    assert given.beat("m1", 3).epoch == 3


def test_topics_that_come_grow_and_go_move_the_group() -> None:
    given = coordinator(image=image_of(u=1))
    assert given.told(given.join("m1", ["t"])) == {}

    for number, (partitions, parts) in enumerate([(2, [0, 1]), (3, [0, 1, 2])]):
        given.set_topics(t=partitions, u=1)
        told = given.beat("m1", 2 + number)
        assert (told.epoch, given.told(told)) == (3 + number, {"t": parts})
        assert given.noted(EpochBumped)[-1].cause is Cause.PARTITIONS_CHANGED
    given.set_topics(u=5, t=3)
    assert given.beat("m1", 4).epoch == 4
    given.set_topics(u=5)
    told = given.beat("m1", 4, owned={"t": [0, 1, 2]})
    assert (told.epoch, given.told(told)) == (4, {})
    assert given.beat("m1", 4, owned={}).epoch == 5


def test_the_favourite_assignor_is_taken() -> None:
    given = coordinator(image=image_of(t=3, u=3))
    given.join("m1", ["t", "u"], assignor="range")
    given.join("m2", ["t", "u"], assignor="range")

    described = given.groups.describe(GROUP)

    assert described.assignor == "range"
    assert {len(parts) for member in described.members for parts in member.target.values()} == {1, 2}
    assert given.noted(TargetComputed)[-1].assignor == "range"


def test_a_large_assignment_is_made_beside_the_loop_and_counts_when_it_is_there() -> None:
    given = Coordinator(image=image_of(t=40_000), settings=AT_ONCE)

    assert given.told(given.join("m1")) == {}
    assert given.state == "Assigning"
    assert given.beat("m1", 1).epoch == 1
    assert len(given.beside.jobs) == 1
    given.join("m2")
    given.beside.finish(given)
    told = given.beat("m1", 1)

    assert told.epoch == 2 and told.assigned is not None and len(told.assigned[topic_id("t")]) == 40_000
    given.leave("m2")
    given.beside.finish(given)  # was started for the epoch in which m2 came; one more is due
    assert "m2" not in given.group.targets


def test_it_is_dropped_if_the_epoch_that_it_was_for_has_been_undone() -> None:
    given = Coordinator(image=image_of(t=40_000), settings=AT_ONCE)
    given.holds = True
    given.join("m1")
    given.fail()
    given.holds = False

    given.beside.finish(given)

    assert given.groups.get(GROUP) is None and given.log == []


def test_a_clock_that_goes_back_stops_no_assignment() -> None:
    given = Coordinator()
    given.join("m1")

    later = Coordinator(given.log, now_ms=given.now_ms - 3_600_000)
    epoch = later.join("m2").epoch

    assert later.group.target.now.epoch == later.group.epoch == epoch
