"""Groups to share out partitions in, written short: topics are letters, assignments are text like `A0 A1 B2`."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec


def topic(letter: str) -> UUID:
    return UUID(int=ord(letter))


def letter(topic_id: UUID) -> str:
    return chr(topic_id.int)


def member(topics: str, has: str = "", instance_id: str | None = None) -> MemberSpec:
    return MemberSpec(frozenset(map(topic, topics)), read(has), instance_id)


def group(partitions: Mapping[str, int], **members: MemberSpec) -> GroupSpec:
    return GroupSpec(members, {topic(name): count for name, count in partitions.items()})


def read(text: str) -> Assignment:
    places: dict[UUID, set[int]] = {}
    for place in text.split():
        places.setdefault(topic(place[0]), set()).add(int(place[1:]))
    return {topic_id: frozenset(partitions) for topic_id, partitions in places.items()}


def written(assignment: Assignment) -> str:
    places = sorted((letter(topic_id), number) for topic_id, numbers in assignment.items() for number in numbers)
    return " ".join(f"{name}{number}" for name, number in places)


def told(assignments: Mapping[str, Assignment]) -> dict[str, str]:
    return {member_id: written(assignment) for member_id, assignment in sorted(assignments.items())}


def size(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))
