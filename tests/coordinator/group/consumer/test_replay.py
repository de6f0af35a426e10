"""What the log says is all there is: a new coordinator comes to the same state, and what failed has never been."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from tests.coordinator.group.consumer.given import GROUP, Consumer, Coordinator, image_of, topic_id

from ottla.coordinator.group.consumer import records
from ottla.coordinator.group.consumer.core import Settings
from ottla.coordinator.group.consumer.members import Member, MemberState
from ottla.coordinator.group.events import GroupLoaded
from ottla.coordinator.machine import StoredRecord
from ottla.model.errors import KafkaError


def state_of(coordinator: Coordinator) -> Any:
    """Everything, sums included, of all groups."""
    found = {}
    for group_id in coordinator.groups.ids():
        group = coordinator.groups.get(group_id)
        assert group is not None
        sums = {name: value for name, value in vars(group.counts).items() if name != "topics_changed"}
        tables = [dict(table.items()) for table in (group.members, group.patterns, group.targets)]
        found[group_id] = (tables, group.latest.now, group.target.now, group.state, sums)
    return found


def random_step(dice: Random, given: Coordinator) -> None:
    member_id = f"m{dice.randrange(6)}"
    instance_id = f"i{member_id}" if member_id in ("m4", "m5") else None
    group = given.groups.get(GROUP)
    member = None if group is None else group.members.get(member_id)
    choice = dice.randrange(10)
    with suppress(KafkaError):
        if member is None or choice == 0:
            wants: list[dict[str, Any]] = [{"topics": "t"}, {"topics": "tu"}, {"topics": "", "pattern": "t|v"}]
            given.join(member_id, **dice.choice(wants), instance_id=instance_id)
        elif choice == 1:
            given.leave(member_id, instance_id)
        elif choice == 2 and instance_id is not None:
            given.go_away(member_id, instance_id)
        elif choice == 3:
            given.beat(member_id, member.epoch, instance_id=instance_id, topics=dice.choice([["u"], ["t"], ["x"]]))
        elif choice == 4:
            given.set_topics(t=dice.randrange(1, 6), u=dice.randrange(3), v=2)
        elif choice == 5:
            given.advance(dice.randrange(20_000))
        else:
            owned = {
                name: list(member.assigned[topic_id(name)]) for name in "tuvx" if topic_id(name) in member.assigned
            }
            given.beat(member_id, member.epoch, instance_id=instance_id, owned=owned)


@pytest.mark.parametrize("seed", range(25))
def test_a_new_coordinator_comes_to_the_same_state(seed: int) -> None:
    dice = Random(seed)
    given = Coordinator(image=image_of(t=4, u=2), settings=Settings(assignment_interval_ms=dice.choice([0, 1000])))
    for _ in range(150):
        random_step(dice, given)
        if dice.randrange(10) == 0:
            again = Coordinator(given.log, given.now_ms, image=given.image)
            assert state_of(again) == state_of(given)


@pytest.mark.parametrize("seed", range(25))
def test_what_was_not_stored_has_never_been(seed: int) -> None:
    dice = Random(seed)
    given = Coordinator(image=image_of(t=4, u=2), settings=Settings(assignment_interval_ms=0))
    for _ in range(30):
        for _ in range(5):
            random_step(dice, given)
        before = state_of(given)
        given.holds = True
        for _ in range(dice.randrange(1, 6)):
            random_step(dice, given)
        committed = {name: group.committed_state for name in given.groups.ids() if (group := given.groups.get(name))}
        if dice.randrange(2):
            given.fail()
            assert state_of(given) == before
            assert all(committed[name].value == row.state for row in given.groups.list() for name in [row.group_id])
        else:
            given.commit()
        given.holds = False
    assert state_of(Coordinator(given.log, given.now_ms, image=given.image)) == state_of(given)


def test_those_who_look_see_only_what_is_committed() -> None:
    given = Coordinator(image=image_of(t=4), settings=Settings(assignment_interval_ms=0))
    given.join("m1", assignor="range")
    given.holds = True
    given.join("m2", assignor="uniform")
    given.join("m3", assignor="uniform")

    described = given.groups.describe(GROUP)

    assert (described.epoch, described.target_epoch, described.state, described.assignor) == (2, 2, "Stable", "range")
    assert [member.member.id for member in described.members] == ["m1"]
    given.commit()
    described = given.groups.describe(GROUP)
    assert (described.epoch, described.state, described.assignor) == (4, "Reconciling", "uniform")


def test_members_are_awaited_by_a_new_coordinator() -> None:
    given = Coordinator(image=image_of(t=4), settings=Settings(assignment_interval_ms=0))
    one, two = Consumer(given, "m1"), Consumer(given, "m2", rebalance_timeout_ms=10_000)
    given.settle({"m1": one, "m2": two})
    given.join("m3")
    given.beat("m2", two.epoch)
    assert given.member("m2").state is MemberState.UNREVOKED_PARTITIONS

    given.advance(9_000)
    given.restart()
    given.advance(9_999)
    assert "m2" in given.group.members
    given.advance(1)  # its time to give up partitions began anew
    assert "m2" not in given.group.members
    given.advance(45_000)

    assert given.state == "Empty"
    assert given.noted(GroupLoaded)[0].members == 3


def test_records_of_deleted_things_may_come_without_the_things() -> None:
    log = [
        *records.member_deletions("g", "m"),
        *records.group_deletions("g", ["m"], ["p"]),
        records.member_record("h", Member("m")),
        *records.member_deletions("h", "other"),
        StoredRecord(records.deletion(records.PARTITIONS, "h").key, b"\0\0\1\0"),
    ]

    given = Coordinator(log)

    assert given.groups.ids() == ["h"]


def test_the_topics_that_kafka_4_0_kept_for_a_group_are_deleted_with_its_next_epoch() -> None:
    given = Coordinator(image=image_of(t=1), settings=Settings(assignment_interval_ms=0))
    given.join("m1")
    key = records.deletion(records.PARTITIONS, GROUP).key
    given = Coordinator([*given.log, StoredRecord(key, b"\0\0\1\0")], image=image_of(t=2))

    given.beat("m1", 2)

    assert StoredRecord(key, None) in given.log
    assert not given.group.has_partitions_record.now
