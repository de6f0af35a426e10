"""Which partitions went from whom to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from ottla.coordinator.group.classic.embedded_protocol import Unreadable, read_assignment
from ottla.coordinator.group.events import Partitions, Topic
from ottla.coordinator.group.history.entries import KEPT_NAMES, Move

Owned = Mapping[str, frozenset[int]]
"""Partitions by topic, of one member."""
_MANY: Final = 10_000
NOTHING: Final[Owned] = {}


@lru_cache(maxsize=256)
def owned_by(assignment: bytes) -> Owned:
    """What a leader has assigned to a consumer; nothing if it is not written as consumers do."""
    try:
        places = read_assignment(assignment).places
    except Unreadable:
        return NOTHING
    return {topic: frozenset(numbers) for topic, numbers in places.items()}


def owned_in(partitions: Partitions, name_of: Callable[[Topic], str]) -> Owned:
    return {name_of(topic): frozenset(numbers) for topic, numbers in partitions.items() if numbers}


def count_of(owned: Owned) -> int:
    return sum(map(len, owned.values()))


class Moved(NamedTuple):
    total: int
    first: list[Move]


def moved(before: Mapping[str, Owned], after: Mapping[str, Owned], label: Callable[[str], str]) -> Moved:
    """Both by member; `label` says how a member is called. Of very many partitions only the number is told."""
    if sum(map(count_of, after.values())) > _MANY:
        return Moved(_number(after, before) or _number(before, after), [])
    given_up = _difference(before, after)
    taken = _difference(after, before)
    places = sorted(given_up.keys() | taken.keys())
    first = [
        Move(*place, _label(given_up.get(place), label), _label(taken.get(place), label))
        for place in places[:KEPT_NAMES]
    ]
    return Moved(len(places), first)


def _number(ours: Mapping[str, Owned], theirs: Mapping[str, Owned]) -> int:
    return sum(
        len(partitions - theirs.get(member_id, NOTHING).get(topic, frozenset()))
        for member_id, owned in ours.items()
        for topic, partitions in owned.items()
    )


def _difference(ours: Mapping[str, Owned], theirs: Mapping[str, Owned]) -> dict[tuple[str, int], str]:
    found = {}
    for member_id, owned in ours.items():
        others = theirs.get(member_id, NOTHING)
        if others is owned:
            continue
        for topic, partitions in owned.items():
            for number in partitions - others.get(topic, frozenset()):
                found[topic, number] = member_id
    return found


def _label(member_id: str | None, label: Callable[[str], str]) -> str | None:
    return None if member_id is None else label(member_id)
