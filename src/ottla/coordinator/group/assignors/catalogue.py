"""The assignors by name, and which of their work is too much for the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from ottla.coordinator.group.assignors import range as by_range
from ottla.coordinator.group.assignors import uniform
from ottla.coordinator.group.assignors.spec import Assignment, Assignor, GroupSpec, have_same_topics

_LARGE: Final = 30_000
_LARGE_MIXED: Final = 8_000
ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform.assign, "range": by_range.assign}


def assign(name: str, spec: GroupSpec) -> dict[str, Assignment]:
    """Can be sent to another process: `env.executor.compute(assign, name, spec)`."""
    return ASSIGNORS[name](spec)


def is_large(spec: GroupSpec) -> bool:
    """Whether it may take the loop more than some 20 ms."""
    if have_same_topics(spec):
        topics = next(iter(spec.members.values())).topics if spec.members else ()
        return len(spec.members) + sum(spec.partitions.get(topic, 0) for topic in topics) > _LARGE
    subscriptions = sum(len(member.topics) for member in spec.members.values())
    topics = frozenset[UUID]().union(*{member.topics for member in spec.members.values()})
    return subscriptions + sum(spec.partitions.get(topic, 0) for topic in topics) > _LARGE_MIXED
