"""The history does not grow without end, and goes with its group."""

from __future__ import annotations

from tests.coordinator.group.consumer.given import Consumer
from tests.coordinator.group.consumer.given import Coordinator as Consumers
from tests.coordinator.group.history.given import World

from ottla.coordinator.group.events import Cause, GroupDeleted, MemberJoined, MemberLeft, RebalanceStarted
from ottla.coordinator.group.history.coding import decode
from ottla.coordinator.group.history.entries import (
    KEPT_CHANGES,
    KEPT_ENTRIES,
    KEPT_MEMBERS,
    Incident,
    Rebalance,
    Roll,
    What,
)
from ottla.coordinator.group.history.historian import Historian, Readiness
from ottla.coordinator.group.history.rebalances import Topics


def test_only_the_last_entries_are_kept() -> None:
    world = World(0)
    client = world.group(2)[1]
    for _ in range(KEPT_ENTRIES):
        client.close()
        world.run(8)
        client = world.start("worker-1")
        world.run(8)
    entries = world.entries()
    assert len(entries) == KEPT_ENTRIES
    assert entries[-1].number >= 2 * KEPT_ENTRIES - 2
    assert [entry.number for entry in entries] == list(range(entries[0].number, entries[0].number + KEPT_ENTRIES))


def test_a_thousand_members_do_not_make_a_giant() -> None:
    world = World(0)
    for number in range(1000):
        world.historian.note(
            MemberJoined(world.now, "big", 0, f"member-{number}", None, "client", "/10.0.0.1", None, 1, 1, ("orders",))
        )
    world.historian.note(RebalanceStarted(world.now, "big", 0, Cause.MEMBER_JOINED, ("member-0",), None, True))
    world.write()
    told = [decode(value) for value in world.records.values() if value is not None]
    (rebalance,) = (each for each in told if isinstance(each, Rebalance))
    (roll,) = (each for each in told if isinstance(each, Roll))
    assert len(rebalance.changes) == KEPT_CHANGES
    assert rebalance.further == {"joined": 1000 - KEPT_CHANGES}
    assert len(roll.members) == KEPT_MEMBERS
    assert max(len(value) for value in world.records.values() if value is not None) < 100_000


def test_what_comes_before_a_rebalance_is_counted_rather_than_kept() -> None:
    world = World(0)
    for number in range(1000):
        world.historian.note(MemberLeft(world.now, "g", 0, f"member-{number}", None, "client", None, False))
    world.write()
    assert len(world.historian._chronicles["g"]._rebalances._before) == KEPT_CHANGES
    world.historian.note(RebalanceStarted(world.now, "g", 0, Cause.MEMBER_LEFT, ("member-999",), None, False))
    world.write()
    (rebalance,) = (each for each in world.entries() if isinstance(each, Rebalance))
    assert [change.who and change.who.id for change in rebalance.changes] == [f"member-{n}" for n in range(960, 1000)]
    assert rebalance.further == {"left": 960}


def test_long_names_and_reasons_are_cut() -> None:
    world = World(0)
    long = "x" * 32_000
    topics = tuple(f"{number}-{long}" for number in range(100))
    for number in range(KEPT_CHANGES):
        member_id = f"{long}-{number:04}"
        world.historian.note(
            MemberJoined(world.now, "g", 0, member_id, long, long, "/10.0.0.1", long, 1, 1, topics)
        )  # fmt: skip
    world.historian.note(RebalanceStarted(world.now, "g", 0, Cause.MEMBER_JOINED, (), long, True))
    world.write()
    assert max(len(value) for value in world.records.values() if value is not None) < 1_000_000
    (rebalance,) = (each for each in world.entries() if isinstance(each, Rebalance))
    assert len({change.who.id for change in rebalance.changes if change.who is not None}) == KEPT_CHANGES


def test_a_static_consumer_that_comes_back_is_no_cause_of_the_next_rebalance() -> None:
    world, consumers = World(0), Consumers()
    world.historian = Historian(lambda: consumers.now_ms, Topics(str, lambda name: 3))

    def think() -> None:
        for event in consumers.events:
            world.historian.note(event)
        consumers.events.clear()
        world.write()

    member = Consumer(consumers, "a-0", instance_id="i")
    consumers.settle({"a": member})
    for number in range(1, 4):
        consumers.go_away(member.id, "i")
        consumers.advance(5000)
        member = Consumer(consumers, f"a-{number}", instance_id="i")
        consumers.settle({"a": member})
    think()
    returns = [each for each in world.entries() if isinstance(each, Incident)]
    assert What.STATIC_REPLACED in {each.change.what for each in returns}
    newcomer = Consumer(consumers, "b")
    consumers.settle({"a": member, "b": newcomer})
    think()
    last = [each for each in world.entries() if isinstance(each, Rebalance)][-1]
    assert [(change.what, change.who and change.who.id) for change in last.changes] == [(What.JOINED, "b")]


def test_a_deleted_group_leaves_nothing_behind() -> None:
    world = World(0)
    world.group(2)
    world.write()
    assert any(world.records.values())
    world.historian.note(GroupDeleted(world.now, "group", 3))
    world.write()
    assert not any(world.records.values())
    assert world.historian.groups == []


def test_a_new_coordinator_goes_on_with_the_numbers_and_the_members() -> None:
    world = World(0)
    clients = world.group(3)
    before = world.entries()
    for key, value in world.records.items():
        if b"members" in key:
            stored = value
    world.historian.forget("group")
    world.historian.remember("group", stored)
    clients[1].kill()
    world.run(30)
    after = world.entries()
    assert after[-1].number == before[-1].number + 1
    assert isinstance(after[-1], Rebalance)
    (gone,) = after[-1].changes
    assert gone.who is not None and gone.who.client == "worker-1"
    assert gone.evidence is not None and gone.evidence.taken_over is not None


def test_nothing_is_thought_before_what_was_before_is_known() -> None:
    world = World(0)
    world.historian.note(MemberJoined(world.now, "late", 0, "member", None, "client", "/10.0.0.1", None))
    world.historian.note(RebalanceStarted(world.now, "late", 0, Cause.MEMBER_JOINED, ("member",), None, True))
    assert list(world.historian.think(lambda group: Readiness.LOADING)) == []
    assert world.historian.waiting == {"late"}
    assert world.historian.has_work
    assert dict(world.historian.think(lambda group: Readiness.NOT_WRITABLE)) == {"late": []}
    ((group, records),) = world.historian.think(lambda group: Readiness.WRITABLE)
    assert (group, len(records)) == ("late", 2)  # the rebalance, and who is there
    assert not world.historian.has_work


def test_a_group_that_went_elsewhere_leaves_nothing_to_do() -> None:
    world = World(0)
    world.historian.note(MemberJoined(world.now, "noted", 0, "member", None, "client", "/10.0.0.1", None))
    assert dict(world.historian.think(lambda group: Readiness.NOT_WRITABLE)) == {"noted": []}
    world.historian.note(MemberJoined(world.now, "held", 0, "member", None, "client", "/10.0.0.1", None))
    assert world.historian.waiting == {"noted", "held"}
    assert list(world.historian.think(lambda group: Readiness.ELSEWHERE)) == []
    assert not world.historian.has_work and not world.historian.groups
