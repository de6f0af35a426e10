"""`range`: of each topic a member gets neighbouring partitions, and the same ones of topics that have equally many.

Whoever comes first in the order of members gets the first partitions. Static members come first, by their instance id,
so that they get the same ones again after a restart. What members had before does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from uuid import UUID

from ottla.coordinator.group.assignors.spec import (
    Assignment,
    GroupSpec,
    MemberSpec,
    have_same_topics,
    java_order,
    partitions_of,
)


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    member_ids = [member_id for member_id, _ in sorted(spec.members.items(), key=_order)]
    shares = cache(_shares)  # most topics are like others
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in member_ids}
    for topic, subscribers in _subscribers(spec, member_ids).items():
        for member_id, share in zip(subscribers, shares(partitions_of(spec, topic), len(subscribers)), strict=False):
            assigned[member_id][topic] = share
    targets = {member_id: member.target for member_id, member in spec.members.items()}
    return {key: targets[key] if targets[key] == assignment else assignment for key, assignment in assigned.items()}


def _order(entry: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = entry
    instance_id = member.instance_id
    return instance_id is None, java_order(member_id if instance_id is None else instance_id)


def _subscribers(spec: GroupSpec, member_ids: list[str]) -> Mapping[UUID, list[str]]:
    if have_same_topics(spec):
        return dict.fromkeys(spec.members[member_ids[0]].topics, member_ids) if member_ids else {}
    subscribers: dict[UUID, list[str]] = {}
    for member_id in member_ids:
        for topic in spec.members[member_id].topics:
            subscribers.setdefault(topic, []).append(member_id)
    return subscribers


def _shares(partitions: int, members: int) -> Sequence[frozenset[int]]:
    """The first few get one more if it does not come out even; those who would get nothing are left out."""
    least, larger = divmod(partitions, members)
    starts = [least * number + min(number, larger) for number in range(min(partitions, members) + 1)]
    return [frozenset(range(start, end)) for start, end in pairwise(starts)]
