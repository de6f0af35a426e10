"""Short conversations of a quorum, told line by line. `python -m tests.raft.stories` writes the files anew.

A line has the virtual time in ms, and `->` for a request, `=>` for its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ottla.raft.messages import AddVoterRequest, RemoveVoterRequest
from ottla.sim.raft.member import Member
from ottla.sim.raft.world import Weather, World

FOLDER = Path(__file__).parent / "transcripts"


def a_world(voters: int = 3, observers: int = 0, *, dynamic: bool = False) -> World:
    world = World(1, voters, observers, dynamic=dynamic)
    world.weather = Weather(fastest_ms=2, slowest_ms=2)
    world.is_steady = True
    return world


def elected(world: World) -> Member:
    world.start_all()
    assert world.run_for(10_000, lambda: world.leader is not None and world.leader.quorum.high_watermark > 0)
    assert world.leader is not None
    world.run_for(100)
    return world.leader


def followers(world: World) -> list[Member]:
    return [member for member in world.members.values() if member is not world.leader and member.is_up]


def first_election(world: World) -> None:
    world.start_all()
    world.run_until(90)
    world.lines = []
    leader = elected(world)
    world.propose(leader, 2)
    world.run_for(20)


def survivors_learn_together_of_a_death(world: World) -> None:
    leader = elected(world)
    world.lines = []
    leader.kill()
    for member in followers(world):
        member.do(member.quorum.leader_died(world.now, leader.id))
    world.run_for(3000, lambda: world.leader is not None and world.leader.quorum.high_watermark > 0)


def a_leader_resigns_in_favour_of_the_longest_log(world: World) -> None:
    leader = elected(world)
    behind = followers(world)[0]
    world.cut = {(behind.id, other) for other in world.members} | {(other, behind.id) for other in world.members}
    world.propose(leader)
    world.run_for(30)
    world.cut = set()
    world.lines = []
    leader.do(leader.quorum.resign(world.now))
    world.run_for(3000, lambda: world.leader is not None and world.leader.quorum.high_watermark > 0)


def what_was_not_committed_is_cut_off(world: World) -> None:
    old = elected(world)
    world.cut = {(old.id, other) for other in world.members} | {(other, old.id) for other in world.members}
    world.propose(old, 3)
    assert world.run_for(20_000, lambda: world.leader is not None and world.leader is not old)
    new = world.leader
    assert new is not None
    world.run_for(100)
    world.propose(new)
    world.run_for(100)
    world.lines = []
    world.cut = set()
    world.run_for(6000, lambda: old.applied == new.storage.now.end_offset)


def one_far_behind_gets_a_snapshot(world: World) -> None:
    leader = elected(world)
    behind = followers(world)[0]
    behind.kill()
    world.run_for(100)
    for _ in range(3):
        world.propose(leader, 2)
        world.run_for(50)
    while not leader.storage.now.start_offset:
        leader.storage.now.snapshots.clear()
        leader.take_snapshot()
    world.lines = []
    world.start(behind)
    world.run_for(6000, lambda: behind.applied == leader.storage.now.end_offset)


def a_voter_is_added_and_another_removed(world: World) -> None:
    leader = elected(world)
    observer = world.members[4]
    world.run_for(1000)
    world.lines = []
    assert leader.quorum.is_leader
    world.ask(leader, AddVoterRequest("cluster", observer.key, observer.node.endpoints))
    world.run_for(50)
    world.ask(leader, RemoveVoterRequest("cluster", followers(world)[0].key))
    world.run_for(50)


STORIES: dict[str, tuple[Callable[[World], None], Callable[[], World]]] = {
    story.__name__: (story, world)
    for story, world in [
        (first_election, a_world),
        (survivors_learn_together_of_a_death, a_world),
        (a_leader_resigns_in_favour_of_the_longest_log, a_world),
        (what_was_not_committed_is_cut_off, a_world),
        (one_far_behind_gets_a_snapshot, a_world),
        (a_voter_is_added_and_another_removed, lambda: a_world(3, 1, dynamic=True)),
    ]
}


def tell(name: str) -> str:
    story, make_world = STORIES[name]
    world = make_world()
    story(world)
    assert world.lines is not None
    return "\n".join(world.lines) + "\n"


if __name__ == "__main__":
    for name in STORIES:
        (FOLDER / f"{name}.txt").write_text(tell(name))
