"""Random members on virtual time: they join, leave, crash, are slow, repeat themselves, use what is out of date; the
coordinator fails to store things and is replaced at any point. What must hold whatever they do:

- in a generation every partition has at most one owner, and it is the same whoever asks, before and after a restart;
- who is no longer in the generation cannot commit;
- what is in the log is what was last agreed on: replaying it gives the same group;
- once they are left in peace all partitions are owned, and everyone agrees on the generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from tests.coordinator.group.classic.given import GROUP, INITIAL_MS, REBALANCE_MS, SESSION_MS, Asked, Coordinator

from ottla.coordinator.group.classic.group import State
from ottla.coordinator.group.classic.requests import JoinAnswer, Leaving, SyncAnswer
from ottla.model.errors import ErrorCode

PARTITIONS = frozenset(range(6))
NONE = ErrorCode.none


@dataclass
class Person:
    """A client as they are: joins until it is in, then syncs, then sends heartbeats."""

    name: str
    instance_id: str | None = None
    is_up: bool = False
    member_id: str = ""
    generation: int = -1
    joining: Asked | None = None
    syncing: Asked | None = None
    owns: frozenset[int] = frozenset()
    is_in: bool = False
    former: list[tuple[str, int]] = field(default_factory=list)

    def forget(self) -> None:
        if self.generation >= 0:
            self.former.append((self.member_id, self.generation))
        self.generation, self.owns, self.is_in = -1, frozenset(), False
        self.joining = self.syncing = None


class AnyMembers:
    def __init__(self) -> None:
        self.coordinator = Coordinator()
        self.people = [Person(f"p{n}", f"instance-{n}" if n < 2 else None) for n in range(5)]
        self.owners: dict[tuple[int, int], str] = {}  # generation and partition -> member, once it was told

    # -- what people do

    def step(self, who: int) -> None:
        """The next thing that a client would do."""
        person = self.people[who]
        person.is_up = True
        if person.joining is not None:
            self._take_join(person)
        elif person.syncing is not None:
            self._take_sync(person)
        elif person.generation < 0:
            self._join(person)
        elif not person.is_in:
            self._sync(person, {})
        else:
            self._heartbeat(person)

    def crash(self, who: int) -> None:
        """Without a word. What it had asked may still be answered, to nobody."""
        person = self.people[who]
        person.forget()
        person.is_up, person.member_id = False, ""

    def leave(self, who: int) -> None:
        person = self.people[who]
        if person.member_id:
            self.coordinator.leave(Leaving(person.member_id, person.instance_id, "done"))
        self.crash(who)

    def remove_by_name(self, who: int) -> None:
        if (name := self.people[who].instance_id) is not None:
            self.coordinator.leave(Leaving("", name))

    def repeat_a_join(self, who: int) -> None:
        """The connection broke, and the client sends it again."""
        person = self.people[who]
        if person.is_up and person.joining is not None and person.joining.is_open and person.member_id:
            self._join(person)

    def use_what_is_out_of_date(self, who: int, old: int) -> None:
        person = self.people[who]
        if not person.former:
            return
        member_id, generation = person.former[old % len(person.former)]
        group = self.coordinator.groups.get(GROUP)
        if group is not None and generation == group.generation and member_id in group.members:
            return  # it crashed, but has not been missed yet
        assert self.coordinator.commit_offsets(member_id, generation, person.instance_id) is not NONE
        assert self.coordinator.heartbeat(member_id, generation, person.instance_id) is not NONE
        assert self.coordinator.sync(member_id, generation, {}, instance_id=person.instance_id).error is not NONE

    # -- what happens to the coordinator

    def time_goes_on(self, ms: int) -> None:
        self.coordinator.advance(ms)

    def storing_takes_a_while(self) -> None:
        self.coordinator.holds = True

    def storing_ends(self, fails: bool) -> None:
        if fails:
            self.coordinator.fail(ErrorCode.coordinator_not_available)
        self.coordinator.commit()
        self.coordinator.holds = False

    def restart(self) -> None:
        self.coordinator.restart()
        self.coordinator.holds = False

    # -- how they do it

    def _join(self, person: Person) -> None:
        asked = self.coordinator.join(
            person.member_id, instance_id=person.instance_id, client=person.name,
            protocols=[("range", person.name.encode())],
        )  # fmt: skip
        person.forget()
        person.joining = asked
        self._take_join(person)

    def _take_join(self, person: Person) -> None:
        if person.joining is None or person.joining.is_open:
            return
        answer: JoinAnswer = person.joining.answer
        person.joining = None
        if answer.error is ErrorCode.member_id_required:
            person.member_id = answer.member_id
        elif answer.error is NONE:
            person.member_id, person.generation = answer.member_id, answer.generation
            shares: dict[str, bytes] = {}
            if answer.leader == answer.member_id and not answer.skip_assignment:
                shares = share_out([member.member_id for member in answer.members])
            self._sync(person, shares)
        elif answer.error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            person.member_id = ""

    def _sync(self, person: Person, shares: dict[str, bytes]) -> None:
        person.syncing = self.coordinator.sync(
            person.member_id, person.generation, shares, instance_id=person.instance_id
        )
        self._take_sync(person)

    def _take_sync(self, person: Person) -> None:
        if person.syncing is None or person.syncing.is_open:
            return
        answer: SyncAnswer = person.syncing.answer
        person.syncing = None
        if answer.error is NONE:
            person.is_in, person.owns = True, frozenset(answer.assignment)
            self._check_owners(person)
        else:
            self._start_over(person, answer.error)

    def _heartbeat(self, person: Person) -> None:
        error = self.coordinator.heartbeat(person.member_id, person.generation, person.instance_id)
        if error is not NONE:
            self._start_over(person, error)

    def _start_over(self, person: Person, error: ErrorCode) -> None:
        person.forget()
        if error in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            person.member_id = ""

    # -- what must hold

    def _check_owners(self, person: Person) -> None:
        """An instance that comes back owns what its former self did."""
        for partition in person.owns:
            owner = person.instance_id or person.member_id
            key = (person.generation, partition)
            assert self.owners.setdefault(key, owner) == owner, f"{key} belongs to {self.owners[key]} and {owner}"

    def counts_are_right(self) -> None:
        group = self.coordinator.groups.get(GROUP)
        if group is None:
            return
        members = group.members
        assert group.waiting_joins == sum(member.on_join is not None for member in members.values())
        assert not set(group.pending_joins) & set(members)
        assert group.instances == {m.instance_id: m.id for m in members.values() if m.instance_id is not None}
        assert (group.leader in members) if members else group.leader is None
        assert (group.state is State.EMPTY) <= (not members)
        assert len({id(member) for member in members.values()}) == len(members)

    def the_log_says_what_was_agreed_on(self) -> None:
        if self.coordinator.holds:
            return
        group = self.coordinator.groups.get(GROUP)
        again = Coordinator(self.coordinator.log).groups.get(GROUP)
        assert (group is None) == (again is None)
        if group is not None and again is not None and group.state is State.STABLE:
            assert again.generation == group.generation and again.leader == group.leader
            assert {m.id: m.assignment for m in again.members.values()} == {
                m.id: m.assignment for m in group.members.values()
            }

    def _is_settled(self, up: list[int]) -> bool:
        group = self.coordinator.groups.get(GROUP)
        if group is None or group.state is not State.STABLE or len(group.members) != len(up):
            return not up and (group is None or group.state is State.EMPTY)
        return all(self.people[number].is_in for number in up)

    def peace(self) -> None:
        """Those who are up are left in peace: then they share everything."""
        self.storing_ends(fails=False)
        for person in self.people:
            if not person.is_up:
                person.forget()
        up = [number for number, person in enumerate(self.people) if person.is_up]
        for _ in range(4 * (REBALANCE_MS + SESSION_MS) // 1000):
            for number in up:
                self.step(number)
                self.step(number)
            self.coordinator.advance(1000)
            if self._is_settled(up):
                break
        if not up:
            return
        group = self.coordinator.group
        assert group.state is State.STABLE
        assert set(group.members) == {self.people[number].member_id for number in up}
        assert {self.people[number].generation for number in up} == {group.generation}
        owned = [partition for number in up for partition in self.people[number].owns]
        assert sorted(owned) == sorted(PARTITIONS)
        for number in up:
            person = self.people[number]
            assert self.coordinator.commit_offsets(person.member_id, person.generation, person.instance_id) is NONE


def share_out(member_ids: list[str]) -> dict[str, bytes]:
    shares: dict[str, list[int]] = {member_id: [] for member_id in member_ids}
    for partition in sorted(PARTITIONS):
        shares[sorted(member_ids)[partition % len(member_ids)]].append(partition)
    return {member_id: bytes(numbers) for member_id, numbers in shares.items()}


DURATIONS = [1, 500, INITIAL_MS, INITIAL_MS, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]
STEPS: Sequence[tuple[int, Callable[[AnyMembers, Random], None]]] = [
    (40, lambda story, random: story.step(random.randrange(5))),
    (6, lambda story, random: story.crash(random.randrange(5))),
    (6, lambda story, random: story.leave(random.randrange(5))),
    (2, lambda story, random: story.remove_by_name(random.randrange(5))),
    (4, lambda story, random: story.repeat_a_join(random.randrange(5))),
    (8, lambda story, random: story.use_what_is_out_of_date(random.randrange(5), random.randrange(10))),
    (10, lambda story, random: story.time_goes_on(random.choice(DURATIONS))),
    (4, lambda story, random: story.storing_takes_a_while()),
    (8, lambda story, random: story.storing_ends(fails=random.random() < 0.4)),
    (3, lambda story, random: story.restart()),
]


@pytest.mark.parametrize("first", range(0, 400, 20))
def test_whatever_members_do(first: int) -> None:
    for seed in range(first, first + 20):
        random = Random(seed)
        story = AnyMembers()
        try:
            for step in random.choices([step for _, step in STEPS], [weight for weight, _ in STEPS], k=120):
                step(story, random)
                story.counts_are_right()
                story.the_log_says_what_was_agreed_on()
            story.peace()
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
