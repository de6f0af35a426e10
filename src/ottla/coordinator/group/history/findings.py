"""What is the matter with a group: causes that belong together, each with its evidence and what to do about it.

A departure and the return that follows it are one matter, not two. What is blamed on somebody must be seen of him: one
who only joined again because others made the group rebalance is never named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.coordinator.group.history.case import Case
from ottla.coordinator.group.history.entries import Entry
from ottla.coordinator.group.history.finding import TROUBLE, Finding
from ottla.coordinator.group.history.looks_at_departures import deaths, other_departures, pauses, poll_interval
from ottla.coordinator.group.history.looks_at_joins import joins, rolling_restart
from ottla.coordinator.group.history.looks_at_static_members import static_members
from ottla.coordinator.group.history.looks_at_the_rest import (
    changes_of_topics_and_settings,
    idle,
    refusals,
    slowness,
    stalls,
)


def findings(entries: Sequence[Entry], since: int) -> list[Finding]:
    """What explains the history from a moment on; what needs somebody's care first, then by how often it was."""
    case = Case(entries, since)
    found = [finding for look in _LOOKS for finding in look(case)]
    return sorted(found, key=lambda finding: (finding.kind not in TROUBLE, -len(finding.rebalances), -finding.last))


_LOOKS: Final[Sequence[Callable[[Case], list[Finding]]]] = (
    poll_interval,
    pauses,
    deaths,
    static_members,
    rolling_restart,
    other_departures,
    joins,
    changes_of_topics_and_settings,
    slowness,
    refusals,
    stalls,
    idle,
)
"""Each looks for one thing. The order matters, as what is explained is not explained again."""
