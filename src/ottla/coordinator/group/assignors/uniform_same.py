"""`uniform` for members that all subscribe to the same topics: everyone has a quota, and keeps what fits into it.

If partitions do not come out even, some members have one more than others: first those who have one more already, so
that nothing moves for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from ottla.coordinator.group.assignors.spec import (
    NOTHING,
    Assignment,
    GroupSpec,
    java_order,
    partitions_of,
    topic_order,
)

_Partition = tuple[UUID, int]
_NONE: Final[frozenset[int]] = frozenset()


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    member_ids = sorted(spec.members, key=java_order)
    topics = {topic: partitions_of(spec, topic) for topic in spec.members[member_ids[0]].topics}
    assigned, free = _kept(spec, member_ids, topics)
    sizes = [_size(assigned[member_id]) for member_id in member_ids]
    quota, extras = divmod(sum(topics.values()), len(member_ids))
    has_one_more = _who_has_one_more(sizes, quota, extras)

    unfilled: list[tuple[str, int]] = []
    for number, member_id in enumerate(member_ids):
        room = quota + (number in has_one_more) - sizes[number]
        if room > 0:
            unfilled.append((member_id, room))
        elif room < 0:
            assigned[member_id], taken = _without_the_last(assigned[member_id], -room)
            free += taken
    rest = iter(free)
    for member_id, room in unfilled:
        assigned[member_id] = _with(assigned[member_id], islice(rest, room))
    return assigned


def _kept(
    spec: GroupSpec, member_ids: list[str], topics: Mapping[UUID, int]
) -> tuple[dict[str, Assignment], list[_Partition]]:
    """What everyone has of topics that are still subscribed to, and what nobody has."""
    kept: dict[str, Assignment] = {}
    free = {topic: set(range(topics[topic])) for topic in sorted(topics, key=topic_order)}
    for member_id in member_ids:
        target = spec.members[member_id].target
        if not all(topic in topics and partitions <= free[topic] for topic, partitions in target.items()):
            # someone else's by then: who came first keeps it
            mine = {topic: partitions & free[topic] for topic, partitions in target.items() if topic in topics}
            target = {topic: partitions for topic, partitions in mine.items() if partitions}
        for topic, partitions in target.items():
            free[topic] -= partitions
        kept[member_id] = target
    return kept, [(topic, partition) for topic, partitions in free.items() for partition in sorted(partitions)]


def _who_has_one_more(sizes: Sequence[int], quota: int, extras: int) -> frozenset[int]:
    """Of the others the last, as in Kafka."""
    has = [number for number, size in enumerate(sizes) if size > quota]
    has_not = [number for number, size in enumerate(sizes) if size <= quota]
    return frozenset((has + has_not[::-1])[:extras])


def _size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def _without_the_last(assignment: Assignment, count: int) -> tuple[Assignment, list[_Partition]]:
    topics = sorted(assignment, key=topic_order)
    places = [(topic, partition) for topic in topics for partition in sorted(assignment[topic])]
    return _with(NOTHING, places[:-count]), places[-count:]


def _with(assignment: Assignment, added: Iterable[_Partition]) -> Assignment:
    grown: dict[UUID, set[int]] = {}
    for topic, partition in added:
        grown.setdefault(topic, set()).add(partition)
    if not grown:
        return assignment
    more = {topic: assignment.get(topic, _NONE) | partitions for topic, partitions in grown.items()}
    return {**assignment, **more}
