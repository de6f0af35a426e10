"""What an assignor is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from ottla.model.errors import OttlaError

Assignment = Mapping[UUID, frozenset[int]]
"""Partitions by topic. Never changed in place, and no topic is without partitions."""
NOTHING: Final[Assignment] = {}


class MemberSpec(NamedTuple):
    topics: frozenset[UUID]
    """Those it subscribes to, by name or by a pattern."""
    target: Assignment = NOTHING
    """What it was meant to have so far, which it may not have yet."""
    instance_id: str | None = None
    rack: str | None = None


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]
    """How many partitions each topic has; all that someone subscribes to are here."""


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""Every member has an entry; one whose assignment did not change gets the object that was in the spec.

Each partition of a topic with subscribers goes to one of these, and the same spec gives the same assignment.
"""


class AssignmentFailed(OttlaError):
    """A topic that is not there: the spec contradicts itself."""


def have_same_topics(spec: GroupSpec) -> bool:
    return len({member.topics for member in spec.members.values()}) <= 1


def partitions_of(spec: GroupSpec, topic: UUID) -> int:
    count = spec.partitions.get(topic)
    if count is None:
        raise AssignmentFailed(f"members subscribe to topic {topic}, which is not among those that exist")
    return count


def java_order(text: str) -> bytes:
    """Java compares strings by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


def topic_order(topic: UUID) -> int:
    """Kafka compares ids as two signed numbers."""
    return topic.int ^ _SIGNS


_SIGNS: Final = 1 << 127 | 1 << 63
