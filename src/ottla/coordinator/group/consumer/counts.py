"""Sums over the members of a group that would cost too much to make anew with each heartbeat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from ottla.coordinator.group.consumer.members import Assigned, Member, MemberState
from ottla.coordinator.group.consumer.records import Matches

K = TypeVar("K")


class TopicCount(NamedTuple):
    """How many members name a topic, and how many patterns match it."""

    by_name: int = 0
    by_pattern: int = 0


class Counts:
    """Follows every change of a group's members and patterns, forwards and back."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicCount] = {}
        self.topics_changed = 0
        """How often the set of topics has become another."""
        self.patterns: dict[str, int] = {}
        self.assignors: dict[str, int] = {}
        self.instances: dict[str, str] = {}  # instance id -> member id
        self.owners: dict[UUID, dict[int, str]] = {}  # who has a partition, or has yet to give it up
        self.stable: dict[int, int] = {}  # epoch -> how many members are stable in it
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}

    def member_changed(self, old: Member | None, new: Member | None) -> None:
        if old is not None and new is not None and old[:_CURRENT] == new[:_CURRENT]:
            self._progress(old, new)
            return
        if old is not None:
            self._count(old, -1)
        if new is not None:
            self._count(new, 1)
        self._progress(old, new)

    def _count(self, member: Member, step: int) -> None:
        for topic in member.topics:
            self._count_topic(topic, step, 0)
        if member.pattern:
            _add(self.patterns, member.pattern, step)
        if member.assignor is not None:
            _add(self.assignors, member.assignor, step)
        if member.classic is not None:
            self.classic_members += step
            for protocol in member.classic.protocols:
                _add(self.classic_protocols, protocol.name, step)
        if member.instance_id is not None:
            if step > 0:
                self.instances[member.instance_id] = member.id
            elif self.instances.get(member.instance_id) == member.id:
                del self.instances[member.instance_id]

    def _progress(self, old: Member | None, new: Member | None) -> None:
        if old is not None:
            if old.state is MemberState.STABLE:
                _add(self.stable, old.epoch, -1)
            if new is None or old.assigned is not new.assigned or old.revoking is not new.revoking:
                self._release(old.id, old.assigned)
                self._release(old.id, old.revoking)
        if new is not None:
            if new.state is MemberState.STABLE:
                _add(self.stable, new.epoch, 1)
            if old is None or old.assigned is not new.assigned or old.revoking is not new.revoking:
                self._take(new.id, new.assigned)
                self._take(new.id, new.revoking)

    def _take(self, member_id: str, assigned: Assigned) -> None:
        for topic_id, partitions in assigned.items():
            self.owners.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member_id))

    def _release(self, member_id: str, assigned: Assigned) -> None:
        for topic_id, partitions in assigned.items():
            owners = self.owners.get(topic_id)
            if owners is None:
                continue
            for partition in partitions:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                del self.owners[topic_id]

    def matches_changed(self, old: Matches | None, new: Matches | None) -> None:
        if old is not None and new is not None and old.topics == new.topics:
            return
        for topic in old.topics if old is not None else ():
            self._count_topic(topic, 0, -1)
        for topic in new.topics if new is not None else ():
            self._count_topic(topic, 0, 1)

    def _count_topic(self, topic: str, by_name: int, by_pattern: int) -> None:
        before = self.topics.get(topic)
        if before is None:
            self.topics_changed += 1
            before = TopicCount()
        after = TopicCount(before.by_name + by_name, before.by_pattern + by_pattern)
        if after.by_name or after.by_pattern:
            self.topics[topic] = after
        else:
            del self.topics[topic]
            self.topics_changed += 1

    # -- what would be

    def topics_with(self, less: Iterable[Iterable[str]], more: Iterable[Iterable[str]]) -> Collection[str]:
        """All topics if some counted once less and some once more; the very dict of topics if none is new or gone."""
        steps: dict[str, int] = {}
        for names in less:
            for name in names:
                steps[name] = steps.get(name, 0) - 1
        for names in more:
            for name in names:
                steps[name] = steps.get(name, 0) + 1
        gone, come = set(), []
        for name, step in steps.items():
            before = self.topics.get(name)
            if before is None and step > 0:
                come.append(name)
            elif before is not None and before.by_name + before.by_pattern + step <= 0:
                gone.add(name)
        return [name for name in self.topics if name not in gone] + come if gone or come else self.topics

    def favourite_assignor(self, old: Member | None = None, new: Member | None = None) -> str | None:
        """What most members ask for, with a change that is about to be."""
        votes = self.assignors
        if (old and old.assignor) != (new and new.assignor):
            votes = dict(votes)
            if old is not None and old.assignor is not None:
                _add(votes, old.assignor, -1)
            if new is not None and new.assignor is not None:
                _add(votes, new.assignor, 1)
        return favourite(votes)


_CURRENT: Final = Member._fields.index("epoch")


def favourite(votes: Mapping[str, int]) -> str | None:
    return max(votes, key=votes.__getitem__, default=None)


def _add(counts: dict[K, int], key: K, step: int) -> None:
    count = counts.get(key, 0) + step
    if count:
        counts[key] = count
    else:
        del counts[key]
