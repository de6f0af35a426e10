"""`uniform` for members with different topics.

    keep     everyone keeps what it had of the topics that it still subscribes to
    spread   what is free goes, topic by topic, to the subscribers that have the least
    level    topic by topic, partitions go from the subscribers that have most to those that have least, until the
             difference is at most one; again and again, as topics with common subscribers undo each other's work

Where the subscribers of a topic all have the same topics, one round of levelling is enough and a second finds nothing
to do. Where subscriptions overlap, each round about halves what is uneven, and what 16 of them leave is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapreplace
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, java_order, partitions_of, topic_order

_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    return _Mixed(spec).assign()


class _Mixed:
    """Members are numbered in their order."""

    def __init__(self, spec: GroupSpec) -> None:
        self._member_ids = sorted(spec.members, key=java_order)
        self._members = [spec.members[member_id] for member_id in self._member_ids]
        self._sizes = [0] * len(self._members)
        self._changed: dict[int, dict[UUID, set[int]]] = {}
        self._subscribers: dict[UUID, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic in member.topics:
                self._subscribers.setdefault(topic, []).append(number)
        self._owners = {topic: [_NOBODY] * partitions_of(spec, topic) for topic in self._subscribers}

    def assign(self) -> dict[str, Assignment]:
        self._keep()
        topics = sorted(self._subscribers, key=self._order)
        for topic in topics:
            self._spread(topic)
        self._level_all([topic for topic in topics if len(self._subscribers[topic]) > 1])
        return {member_id: self._assigned(number) for number, member_id in enumerate(self._member_ids)}

    def _order(self, topic: UUID) -> tuple[float, int, int]:
        """Those first that bring most to each of their subscribers, then those with few subscribers."""
        subscribers = len(self._subscribers[topic])
        return -len(self._owners[topic]) / subscribers, subscribers, topic_order(topic)

    # -- the three steps

    def _keep(self) -> None:
        for number, member in enumerate(self._members):
            for topic, partitions in member.target.items():
                if topic not in member.topics:
                    del self._to_change(number)[topic]
                    continue
                owners = self._owners[topic]
                for partition in partitions:
                    if 0 <= partition < len(owners) and owners[partition] == _NOBODY:
                        owners[partition] = number
                        self._sizes[number] += 1
                    else:  # someone else's by then: who came first keeps it
                        self._drop(topic, partition, number)

    def _spread(self, topic: UUID) -> None:
        owners = self._owners[topic]
        if _NOBODY not in owners:
            return
        members = self._by_size(topic)
        least = [(self._sizes[number], place) for place, number in enumerate(members)]  # sorted, so a heap
        for partition, owner in enumerate(owners):
            if owner == _NOBODY:
                size, place = least[0]
                heapreplace(least, (size + 1, place))
                self._give(topic, partition, members[place])

    def _level_all(self, topics: Sequence[UUID]) -> None:
        quiet = -1  # topics since the last that changed
        for _ in range(_ROUNDS):
            for topic in topics:
                quiet = 0 if self._level(topic) else quiet + 1
                if quiet == len(topics) - 1:
                    return

    def _level(self, topic: UUID) -> bool:
        sizes = [self._sizes[number] for number in self._subscribers[topic]]
        if max(sizes) - min(sizes) <= 1:
            return False
        members = self._by_size(topic)
        least = [(self._sizes[number], place) for place, number in enumerate(members)]
        most = _Most(members, self._sizes, self._owned(topic))
        moved = False
        while (giver := most.next()) is not None:
            size, place = least[0]
            if giver.size - size <= 1:
                break
            heapreplace(least, (size + 1, place))
            self._drop(topic, giver.partition, giver.member)
            self._sizes[giver.member] -= 1
            self._give(topic, giver.partition, members[place])
            moved = True
        return moved

    def _by_size(self, topic: UUID) -> list[int]:
        return sorted(self._subscribers[topic], key=self._sizes.__getitem__)

    def _owned(self, topic: UUID) -> dict[int, list[int]]:
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic]):
            owned.setdefault(owner, []).append(partition)
        return owned

    # -- changes

    def _to_change(self, number: int) -> dict[UUID, set[int]]:
        changed = self._changed.get(number)
        if changed is None:
            target = self._members[number].target
            changed = self._changed[number] = {topic: set(partitions) for topic, partitions in target.items()}
        return changed

    def _give(self, topic: UUID, partition: int, number: int) -> None:
        self._to_change(number).setdefault(topic, set()).add(partition)
        self._owners[topic][partition] = number
        self._sizes[number] += 1

    def _drop(self, topic: UUID, partition: int, number: int) -> None:
        changed = self._to_change(number)
        changed[topic].discard(partition)
        if not changed[topic]:
            del changed[topic]

    def _assigned(self, number: int) -> Assignment:
        target = self._members[number].target
        changed = self._changed.get(number)
        if changed is None:
            return target
        assigned = {topic: frozenset(partitions) for topic, partitions in changed.items()}
        return target if assigned == target else assigned


class _Giver(NamedTuple):
    member: int
    size: int
    partition: int


class _Most:
    """Who gives a partition of a topic next: all of the highest level in turn, then those of the level below as well.

    Who has none of the topic left drops out, and the first in the turn takes its place, as in Kafka.
    """

    def __init__(self, members: Sequence[int], sizes: Sequence[int], owned: dict[int, list[int]]) -> None:
        self._below = list(members)
        self._sizes = sizes
        self._owned = owned
        self._turn: list[int] = []
        self._level = 0
        self._first = self._at = 0

    def next(self) -> _Giver | None:
        turn = self._turn
        while self._at < len(turn) or self._descend():
            member = turn[self._at]
            self._at += 1
            if partitions := self._owned.get(member):
                return _Giver(member, self._level, partitions.pop())
            turn[self._at - 1] = turn[self._first]
            self._first += 1
        return None

    def _descend(self) -> bool:
        below, sizes = self._below, self._sizes
        if self._first < len(self._turn):
            self._level -= 1
        elif below:
            self._level = sizes[below[-1]]
        while below and sizes[below[-1]] == self._level:
            self._turn.append(below.pop())
        self._at = self._first
        return self._at < len(self._turn)
