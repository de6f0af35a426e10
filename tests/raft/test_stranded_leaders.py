"""A leader that is cut off changes the voters; its successor does not know of it."""

from __future__ import annotations

import pytest
from tests.raft import planted_raft_bugs as bugs
from tests.raft.stories import a_world, elected, followers

from ottla.raft.messages import RemoveVoterRequest
from ottla.sim.raft.checks import Violation
from ottla.sim.raft.member import Member
from ottla.sim.raft.world import World


def cut_off(world: World, one: Member) -> None:
    world.cut = {pair for other in world.members for pair in ((one.id, other), (other, one.id))}


def stranded(world: World) -> tuple[Member, Member]:
    """One that led, removed a voter while it was alone, and heard of its successor; and that."""
    old = elected(world)
    cut_off(world, old)
    world.ask(old, RemoveVoterRequest("cluster", followers(world)[0].key))
    assert len(old.quorum.voters) == 2
    assert world.run_for(10_000, lambda: world.leader not in (None, old) and world.leader.quorum.high_watermark > 0)
    new = world.leader
    assert new is not None
    world.cut = set()
    assert world.run_for(10_000, lambda: old.applied == new.storage.now.end_offset)
    return old, new


def remove_another_alone(world: World, one: Member) -> None:
    """It leads once more, is cut off once more, and is asked to remove whom it did not remove before."""
    while world.leader is not one or one.quorum.high_watermark < 0:
        leader = world.leader
        if leader is not None and leader is not one and leader.quorum.high_watermark > 0:
            leader.do(leader.quorum.resign(world.now))
        world.run_for(100)
    world.run_for(1000)
    cut_off(world, one)
    other = next(key for key in one.quorum.voters.keys[::-1] if key != one.key)
    world.ask(one, RemoveVoterRequest("cluster", other))
    world.run_for(10_000)


def test_whoever_heard_of_a_successor_has_its_voters() -> None:
    old, new = stranded(a_world(dynamic=True))

    assert old.quorum.voters == new.quorum.voters
    assert old.quorum.voters.ids == (1, 2, 3)


def test_it_does_not_commit_alone_when_it_leads_again() -> None:
    world = a_world(dynamic=True)
    old, _ = stranded(world)

    remove_another_alone(world, old)

    assert world.leader is not old
    world.must_recover(20_000)


def test_with_voters_that_were_cut_off_its_log_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    bugs.keep_the_voters_of_a_truncated_log(monkeypatch)
    world = a_world(dynamic=True)
    old, _ = stranded(world)

    with pytest.raises(Violation):
        remove_another_alone(world, old)
