"""Which partitions went from whom to whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.coordinator.group.events import Partitions, Topic
from ottla.coordinator.group.history.entries import KEPT_NAMES, Move

Owned = Mapping[str, frozenset[int]]
"""Partitions by topic, of one member."""
_HEAD: Final = Struct(">hi")
_SIZE: Final = Struct(">h")
_COUNT: Final = Struct(">i")
NOTHING: Final[Owned] = {}


@lru_cache(maxsize=256)
def owned_by(assignment: bytes) -> Owned:
    """What a leader has assigned to a consumer; nothing if it is not written as consumers do."""
    if not assignment:
        return NOTHING
    found: dict[str, frozenset[int]] = {}
    try:
        _, topics = _HEAD.unpack_from(assignment)
        at = _HEAD.size
        for _ in range(topics):
            (size,) = _SIZE.unpack_from(assignment, at)
            at += _SIZE.size
            name = assignment[at : at + size].decode()
            at += size
            (count,) = _COUNT.unpack_from(assignment, at)
            at += _COUNT.size
            if count < 0 or at + 4 * count > len(assignment):
                return NOTHING
            found[name] = frozenset(Struct(f">{count}i").unpack_from(assignment, at))
            at += 4 * count
    except (StructError, UnicodeDecodeError):
        return NOTHING
    return found


def owned_in(partitions: Partitions, name_of: Callable[[Topic], str]) -> Owned:
    return {name_of(topic): frozenset(numbers) for topic, numbers in partitions.items() if numbers}


def count_of(owned: Owned) -> int:
    return sum(map(len, owned.values()))


class Moved(NamedTuple):
    total: int
    first: list[Move]


def moved(before: Mapping[str, Owned], after: Mapping[str, Owned], label: Callable[[str], str]) -> Moved:
    """Both by member; `label` says how a member is called."""
    given_up = _difference(before, after)
    taken = _difference(after, before)
    places = sorted(given_up.keys() | taken.keys())
    first = [
        Move(*place, _label(given_up.get(place), label), _label(taken.get(place), label))
        for place in places[:KEPT_NAMES]
    ]
    return Moved(len(places), first)


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
