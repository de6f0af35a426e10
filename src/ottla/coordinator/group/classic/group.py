"""One classic group: who is in it, in which generation, and who is waited for.

    Empty                 nobody; perhaps committed offsets, perhaps members to be who have been given an id
      | the first join
      v
    PreparingRebalance    waits for all members to join (again), at most their longest rebalance timeout
      | all are here, or the time is up: those who are not are removed; a new generation begins
      v                                                                           (nobody is left: Empty)
    CompletingRebalance   waits for the leader's assignment
      | it came and is committed
      v
    Stable                until a member joins, leaves, changes or is not heard of: PreparingRebalance

A group that does not exist is Dead to those who ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from ottla.coordinator.group.classic.members import Member
from ottla.coordinator.group.classic.records import NO_TIME, StoredGroup, StoredMember
from ottla.coordinator.group.classic.requests import (
    DescribedGroup,
    JoinAnswer,
    JoinCallback,
    JoinRequest,
    ListedGroup,
    Protocol,
    SyncAnswer,
)
from ottla.coordinator.group.classic.subscriptions import CONSUMER, topics_of
from ottla.model.errors import ErrorCode

DEAD: Final = "Dead"


class State(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ClassicGroup:
    """Keeps its counts right; what should happen when is decided by those who change it."""

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.id = group_id
        self.state = State.EMPTY
        self.came_from = State.EMPTY
        self.state_since_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.generation = 0
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}  # instance id -> member id
        self.pending_joins: dict[str, None] = {}  # ids that were given out, and did not come back yet
        self.pending_syncs: dict[str, None] = {}  # members that have not asked for their assignment in this generation
        self.waiting_joins = 0
        self.has_grown = False  # in the initial delay, which is then extended
        self.topics: frozenset[str] | None = None
        self.unread: bytes | None = None  # its record, while the log is loaded
        self._supporters: dict[str, int] = {}  # protocol -> how many members know it

    # -- from and to records

    def restore(self, stored: StoredGroup) -> None:
        """Who was in it when its last generation was complete is taken to be there still."""
        self.state = State.STABLE if stored.members else State.EMPTY
        self.state_since_ms = stored.state_since_ms
        self.generation = stored.generation
        self.protocol_type = stored.protocol_type or None
        self.protocol = stored.protocol
        self.leader = stored.leader
        for member in stored.members:
            self._take_in(Member.restored(member, stored.protocol_type, stored.protocol))
        self.topics = self._subscribed_topics()

    @classmethod
    def moved_from_consumer_protocol(
        cls, group_id: str, generation: int, members: Iterable[Member], now_ms: int
    ) -> ClassicGroup:
        """Stable, with what its members had and the protocol that most of them like best."""
        group = cls(group_id, now_ms)
        group.state = State.STABLE
        group.generation = generation
        for member in members:
            group._take_in(member)
        group.protocol = group.elect_protocol()
        group.topics = group._subscribed_topics()
        return group

    def stored(self, assignments: dict[str, bytes]) -> StoredGroup:
        members = [member.stored(self.protocol, assignments[member.id]) for member in self.members.values()]
        return self._stored(members)

    def stored_new(self) -> StoredGroup:
        """Nothing but that it exists."""
        return StoredGroup("", 0, None, None, self.state_since_ms)

    def _stored(self, members: list[StoredMember]) -> StoredGroup:
        return StoredGroup(
            self.protocol_type or "", self.generation, self.protocol, self.leader, self.state_since_ms, members
        )

    # -- members

    def add(self, member: Member, on_join: JoinCallback) -> None:
        self._take_in(member)
        member.on_join = on_join
        self.waiting_joins += 1
        self.pending_joins.pop(member.id, None)

    def _take_in(self, member: Member) -> None:
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.id
        if not self.members:
            self.protocol_type = member.protocol_type or None
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._count(member, 1)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.on_join is not None:
                self.waiting_joins -= 1
            if member.instance_id is not None:
                self.instances.pop(member.instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def update(self, member: Member, request: JoinRequest, on_join: JoinCallback | None) -> None:
        """It joins again, perhaps with other timeouts and protocols."""
        self.reset(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        self.waiting_joins += (on_join is not None) - (member.on_join is not None)
        member.on_join = on_join

    def reset(self, member: Member, protocols: tuple[Protocol, ...], rebalance_ms: int, session_ms: int) -> None:
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.rebalance_timeout_ms = rebalance_ms
        member.session_timeout_ms = session_ms

    def replace(self, instance_id: str, old_id: str, new_id: str) -> Member:
        """A static member has come back under a new id; whoever still waits under the old one is fenced."""
        old = self.members.pop(old_id)
        self.answer_join(old, JoinAnswer(ErrorCode.fenced_instance_id, old_id))
        self.answer_sync(old, SyncAnswer(ErrorCode.fenced_instance_id))
        new = old.renamed(new_id)
        self.members[new_id] = new
        if self.leader == old_id:
            self.leader = new_id
        self.instances[instance_id] = new_id
        return new

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            owner = self.instances.get(instance_id)
            if owner is None:
                return ErrorCode.unknown_member_id
            if owner != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    @property
    def all_joined(self) -> bool:
        return len(self.members) == self.waiting_joins and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def find_leader(self) -> bool:
        """The leader must be one who has joined this time. False if nobody has."""
        leader = self.members.get(self.leader) if self.leader is not None else None
        if leader is None:
            return False
        if leader.on_join is None:
            waiting = next((member for member in self.members.values() if member.on_join is not None), None)
            if waiting is None:
                return False
            self.leader = waiting.id
        return True

    # -- protocols

    def supports(self, protocol_type: str, protocols: tuple[Protocol, ...]) -> bool:
        """Whether there is a protocol that all members know, the new one included."""
        if self.state is State.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everyone = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._supporters.get(protocol.name, 0) == everyone for protocol in protocols
        )

    def elect_protocol(self) -> str:
        """Each member votes for its favourite among those that all know; the first with the most votes."""
        everyone = len(self.members)
        candidates = {name for name, count in self._supporters.items() if count == everyone}
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = member.vote(candidates)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count(self, member: Member, change: int) -> None:
        supporters = self._supporters
        for name in {protocol.name for protocol in member.protocols}:
            count = supporters.get(name, 0) + change
            if count:
                supporters[name] = count
            else:
                supporters.pop(name, None)

    @property
    def is_of_consumers(self) -> bool:
        return self.protocol_type == CONSUMER

    def _subscribed_topics(self) -> frozenset[str] | None:
        if not self.is_of_consumers:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        return topics_of(member.metadata(self.protocol) for member in self.members.values())

    # -- states

    def become(self, state: State, now_ms: int) -> None:
        self.came_from = self.state
        self.state = state
        self.state_since_ms = now_ms

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol = self.elect_protocol() if self.members else None
        self.topics = self._subscribed_topics()
        self.become(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_syncs.clear()

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        """It is there because offsets were committed for it, and has no record of its own."""
        return self.protocol_type is None and self.is_empty and not self.pending_joins

    # -- answers

    def answer_join(self, member: Member, answer: JoinAnswer) -> bool:
        on_join = member.on_join
        if on_join is None:
            return False
        member.on_join = None
        self.waiting_joins -= 1
        on_join(answer)
        return True

    def answer_sync(self, member: Member, answer: SyncAnswer) -> bool:
        on_sync = member.on_sync
        if on_sync is None:
            return False
        member.on_sync = None
        on_sync(answer)
        return True

    def joined(self, member_id: str, *, with_members: bool) -> JoinAnswer:
        """What a member is told of the current generation."""
        members = [member.joined(self.protocol) for member in self.members.values()] if with_members else ()
        return JoinAnswer(
            ErrorCode.none,
            member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            False,
            members,
        )

    def described(self) -> DescribedGroup:
        protocol = self.protocol if self.state is State.STABLE else None
        members = [member.described(protocol) for member in self.members.values()]
        return DescribedGroup(self.id, self.state.value, self.protocol_type or "", protocol or "", members)

    def listed(self) -> ListedGroup:
        return ListedGroup(self.id, self.protocol_type or "", self.state.value)

    # -- what committed offsets want to know

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, transactional: bool) -> ErrorCode:
        if generation < 0 and self.is_empty:
            return ErrorCode.none  # by an administrator, or a consumer that takes its partitions itself
        if generation >= 0 or member_id or instance_id is not None:
            code = self.check_member(member_id, instance_id)
            if code is not ErrorCode.none:
                return code
            if generation != self.generation:
                return ErrorCode.illegal_generation
        elif not transactional and not self.is_empty:
            return ErrorCode.unknown_member_id
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def is_subscribed_to(self, topic: str) -> bool:
        """Where the topics are not known, a group of consumers counts as subscribed to all."""
        return self.is_of_consumers if self.topics is None else topic in self.topics

    def expires_from(self, committed_ms: int) -> int | None:
        """When the retention of an offset begins; None: not now."""
        if self.protocol_type is None:
            return committed_ms
        if self.is_empty:
            return committed_ms if self.state_since_ms == NO_TIME else self.state_since_ms
        if self.is_of_consumers and self.topics is not None and self.state is State.STABLE:
            return committed_ms
        return None
