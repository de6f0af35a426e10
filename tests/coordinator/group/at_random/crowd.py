"""Any members of one group, what may happen to them, and what must hold whatever happens.

- A partition is owned by at most one of those who are in the group, by their own belief and by the coordinator's.
- Who is not in the group, or has not got a partition any more, cannot commit for it.
- A committed offset is the last one that was committed.
- What is in the log is all there is: replaying it gives the same groups and offsets.
- Once everyone is left in peace, all partitions are owned, and the group speaks the protocol that it should.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from tests.coordinator.group.at_random.clients import NONE, AnyClient, Classic, Consumer
from tests.coordinator.group.at_random.world import GROUP, Place, World

from ottla.coordinator.group.classic.group import State as ClassicState
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.offsets import Commit, Member
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode

TOPICS: Final = {"orders": 4, "bills": 3}
CLIENTS: Final = 5
STATIC: Final = 2
QUIET_MS: Final = 180_000
_ON_ITS_WAY: Final = "between generations"


class Kind(Enum):
    """Which protocols the clients speak."""

    EAGER = auto()
    COOPERATIVE = auto()
    CONSUMER = auto()
    MIXED_EAGER = auto()
    MIXED_COOPERATIVE = auto()


class Fate(Enum):
    PENDING = auto()
    STORED = auto()
    UNKNOWN = auto()  # the coordinator failed before it answered


@dataclass
class Attempt:
    number: int
    fate: Fate = Fate.PENDING


class Crowd:
    def __init__(self, seed: int, kind: Kind, **settings: object) -> None:
        self.world = World(seed, TOPICS, **settings)
        self.random = self.world.random
        self.kind = kind
        self.clients: list[AnyClient] = [self._client(number) for number in range(CLIENTS)]
        self.attempts: dict[Place, list[Attempt]] = {}
        self._numbers = 0
        self._looks = 0
        for client in self.clients[2:]:
            client.crash()

    def _client(self, number: int) -> AnyClient:
        instance_id = f"instance-{number}" if number < STATIC else None
        topics = frozenset(TOPICS)
        if instance_id is None:  # a static member that comes back with others is not heard, as in Kafka
            topics = self.random.choice([topics, topics, frozenset(["orders"])])
        is_consumer = self.kind is Kind.CONSUMER
        if self.kind in (Kind.MIXED_EAGER, Kind.MIXED_COOPERATIVE):
            is_consumer = self.random.random() < 0.5
        if is_consumer:
            return Consumer(self.world, number, instance_id, topics)
        cooperative = self.kind in (Kind.COOPERATIVE, Kind.MIXED_COOPERATIVE)
        return Classic(self.world, number, instance_id, topics, cooperative=cooperative)

    # -- what may happen

    def live(self, for_ms: int) -> None:
        self._act_soon()
        self.world.time.run(for_ms, self.check)

    def _act_soon(self) -> None:
        def act() -> None:
            if not self.world.calm:
                self._act()
                self._act_soon()

        self.world.time.after(self.random.choice([1, 50, 300, 2000, 8000]), act)

    def _act(self) -> None:
        number = self.random.randrange(CLIENTS)
        client = self.clients[number]
        actions: list[tuple[int, Callable[[], None]]] = [
            (8, lambda: self._begin_anew(number)),
            (3, client.crash),
            (3, lambda: client.leave() if client.is_up else None),  # type: ignore[attr-defined]
            (3, lambda: client.pause(self.random.choice([100, 3000, 12_000, 40_000]))),
            (12, lambda: self._commit(client)),
            (8, lambda: self._commit_what_was(client)),
            (2, self._replace_coordinator),
            (1, lambda: self.world.grow(self.random.choice(sorted(TOPICS)))),
        ]
        weights, choices = zip(*actions, strict=True)
        self.random.choices(choices, weights)[0]()

    def _begin_anew(self, number: int) -> None:
        """A process is started, perhaps with another protocol or other topics, perhaps in place of one that lives."""
        self.clients[number].crash()
        former = self.clients[number].former
        self.clients[number] = self._client(number)
        self.clients[number].former = former

    def _replace_coordinator(self) -> None:
        if not self.world.is_up:
            return
        self.world.crash()
        self.world.time.after(self.random.choice([0, 100, 5000]), self._start_coordinator)

    def _start_coordinator(self) -> None:
        if not self.world.is_up:
            self.world.start()
            self._settle_unknown()

    # -- committing

    def _commit(self, client: AnyClient) -> None:
        if client.is_up and client.owned and not (isinstance(client, Classic) and client.is_joining):
            self._try_commit(client, client.member_id, client.epoch, self.random.choice(sorted(client.owned)))

    def _commit_what_was(self, client: AnyClient) -> None:
        """A thread that has not heard yet that the partition is gone."""
        if client.former:
            self._try_commit(client, *self.random.choice(client.former))

    def _try_commit(self, client: AnyClient, member_id: str, epoch: int, place: Place) -> None:
        self._numbers += 1
        attempt = Attempt(self._numbers)
        topic, partition = place
        row = Commit(topic, partition, attempt.number, topic_id=self.world.image.topic_ids[topic])
        member = Member(GROUP, member_id, client.instance_id, epoch)

        def operation(machine: GroupMachine) -> Outcome[Any]:
            group = self._members_of(machine)
            outcome = machine.offsets.commit(member, [row], 9)
            if outcome.reply is NONE:
                self._check_commit(machine, group, member, place)
                self.attempts.setdefault(place, []).append(attempt)
            return outcome._replace(committed=lambda: setattr(attempt, "fate", Fate.STORED))

        def failed(code: ErrorCode) -> None:
            if code is ErrorCode.not_coordinator:
                attempt.fate = Fate.UNKNOWN
            elif attempt in self.attempts.get(place, []):
                self.attempts[place].remove(attempt)

        client.ask(
            lambda on_reply, _: self.world.write(operation, on_reply, failed),
            lambda what: None,
        )

    def _members_of(self, machine: GroupMachine) -> set[str]:
        consumer, classic = machine.consumer.get(GROUP), machine.classic.get(GROUP)
        assert consumer is None or classic is None
        if consumer is not None:
            return set(consumer.members)
        return set() if classic is None else set(classic.members)

    def _check_commit(self, machine: GroupMachine, group: set[str], member: Member, place: Place) -> None:
        assert member.id in group, f"{member} is not in the group, but may commit"
        consumer, classic = machine.consumer.get(GROUP), machine.classic.get(GROUP)
        if classic is not None:
            assert member.generation == classic.generation, f"{member} may commit in generation {classic.generation}"
        else:
            assert consumer is not None and member.generation <= consumer.members[member.id].epoch
            owners = set(coordinators_owners(self.world, machine).get(place, ()))
            assert owners <= {member.id}, f"{member} may commit for {place}, which {owners} have"

    def _settle_unknown(self) -> None:
        """What the failed coordinator had not answered is now either so or not."""
        offsets = self._offsets(self.world.machine)
        for place, attempts in self.attempts.items():
            self.attempts[place] = [
                attempt
                for attempt in attempts
                if attempt.fate is Fate.STORED
                or (attempt.fate is Fate.UNKNOWN and offsets.get(place) == attempt.number)
            ]
            for attempt in self.attempts[place]:
                attempt.fate = Fate.STORED

    def _offsets(self, machine: GroupMachine) -> dict[Place, int]:
        found = machine.offsets.fetch_all(GROUP, stable=False)
        return {(topic, row.partition): row.offset for topic, rows in found.items() for row in rows}

    # -- what must hold

    def check(self) -> None:
        if not self.world.is_up:
            return
        machine = self.world.machine
        self._check_owners(machine)
        self._looks += 1
        if self._looks % 5 == 0:
            self._check_offsets(machine)
        if self._looks % 250 == 0 and self.world.is_settled:
            self.check_log()

    def _check_offsets(self, machine: GroupMachine) -> None:
        stored = {
            place: [attempt.number for attempt in attempts if attempt.fate is Fate.STORED]
            for place, attempts in self.attempts.items()
        }
        assert self._offsets(machine) == {place: numbers[-1] for place, numbers in stored.items() if numbers}

    def _check_owners(self, machine: GroupMachine) -> None:
        members = self._members_of(machine)
        believers: dict[Place, list[AnyClient]] = {}
        for client in self.clients:
            if client.member_id in members and self._counts(client, machine):
                for place in client.owned:
                    believers.setdefault(place, []).append(client)
        for place, clients in believers.items():
            assert len(clients) == 1, f"{place} belongs to {[(c.name, c.member_id, c.epoch) for c in clients]}"
        for place, owners in coordinators_owners(self.world, machine).items():
            assert len(owners) == 1, f"to the coordinator {place} belongs to {owners}"

    def _counts(self, client: AnyClient, machine: GroupMachine) -> bool:
        """Whether nobody else may own what a member of the group believes to own.

        A cooperative client among consumers keeps what it has until it hears what it has in the new epoch. Meanwhile
        others may have got it: when it was missed and comes back under its old id, which a consumer group takes for
        that of a new member; or when its classic group became a consumer group before it heard of the last assignment.
        """
        group = machine.consumer.get(GROUP)
        if self.kind is not Kind.MIXED_COOPERATIVE or isinstance(client, Consumer) or group is None:
            return True
        return client.has_heard_of(group.members[client.member_id].epoch)

    def check_log(self) -> None:
        again = self.world.reloaded()
        again.started()
        now = state_of(self.world.machine)
        assert (now is None) == (state_of(again) is None) and now in (state_of(again), _ON_ITS_WAY)
        assert self._offsets(again) == self._offsets(self.world.machine)

    # -- peace

    def leave_in_peace(self) -> None:
        self.world.calm = True
        for client in self.clients:
            client.pause(0)
        self._start_coordinator()
        self.world.store()
        self.world.time.run(QUIET_MS, self.check)
        up = [client for client in self.clients if client.is_up]
        machine = self.world.machine
        members = self._members_of(machine)
        assert members == {client.member_id for client in up}
        wanted = {place for place in self.world.places if any(place[0] in client.topics for client in up)}
        owned = [place for client in up for place in client.owned]
        assert sorted(owned) == sorted(wanted), f"{wanted - set(owned)} are owned by nobody"
        if up:
            has_consumers = any(isinstance(client, Consumer) for client in up)
            assert (machine.consumer.get(GROUP) is not None) == has_consumers
        self._check_offsets(machine)
        self.check_log()


def coordinators_owners(world: World, machine: GroupMachine) -> dict[Place, list[str]]:
    group = machine.consumer.get(GROUP)
    owners: dict[Place, list[str]] = {}
    for member_id, member in group.members.items() if group is not None else ():
        for assigned in (member.assigned, member.revoking):
            for topic_id, partitions in assigned.items():
                for partition in partitions:
                    owners.setdefault((world.image.topics[topic_id].name, partition), []).append(member_id)
    return owners


def state_of(machine: GroupMachine) -> object:
    """What of the group is in records; a classic group's members only when a generation is complete."""
    consumer, classic = machine.consumer.get(GROUP), machine.classic.get(GROUP)
    if consumer is not None:
        return (
            consumer.latest.now,
            consumer.target.now,
            dict(consumer.members.items()),
            dict(consumer.targets.items()),
            consumer.counts.owners,
        )
    if classic is None:
        return None
    if classic.state is not ClassicState.STABLE:
        return _ON_ITS_WAY
    members = {member.id: (member.instance_id, member.assignment) for member in classic.members.values()}
    return (classic.generation, classic.protocol, classic.leader, members)
