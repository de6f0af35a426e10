"""`uniform`: as many partitions for each member as for any other, and as few as possible change hands.

Where all subscribe to the same topics, no member has more than one partition more than another. Where they do not, the
same holds among the subscribers of a topic, unless their other topics make it impossible.
"""

from __future__ import annotations

from ottla.coordinator.group.assignors import uniform_mixed, uniform_same
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, have_same_topics


def assign(spec: GroupSpec) -> dict[str, Assignment]:
    if not spec.members:
        return {}
    if have_same_topics(spec):
        return uniform_same.assign(spec)
    return uniform_mixed.assign(spec)
