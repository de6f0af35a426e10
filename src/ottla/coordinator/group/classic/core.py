"""What all operations on classic groups share: the table of groups, the clock, alarms, limits, the sink of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.events import Event, EventSink
from ottla.coordinator.group.neighbours import NOBODY, Neighbours
from ottla.coordinator.machine import Outcome, Timers
from ottla.coordinator.timeline import Timeline, TimelineDict

R = TypeVar("R")
MAX_INT: Final = 2**31 - 1
NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""A member's first JoinGroup may wait for this long: it has no session before it is in a generation."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`group.*` of the broker's config."""

    initial_rebalance_delay_ms: int = 3000
    max_size: int = MAX_INT
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What comes from outside."""

    timers: Timers
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    """A random UUID, for the ids of members."""
    limits: Limits
    note: EventSink


class Core:
    def __init__(self, timeline: Timeline, around: Surroundings) -> None:
        self.groups: TimelineDict[str, ClassicGroup] = TimelineDict(timeline)
        """A group is in it from the record on that says so; what it is doing is not in records but in the group."""
        self.newborn: dict[str, ClassicGroup] = {}  # between the decision to make one and the replay of its record
        self.neighbours: Neighbours = NOBODY
        self.timers = around.timers
        self.now_ms = around.now_ms
        self.new_id = around.new_id
        self.limits = around.limits
        self._note = around.note

    def note(self, kind: Callable[..., Event], group: ClassicGroup, *facts: Any) -> None:
        self._note(kind(self.now_ms(), group.id, group.generation, *facts))


def nothing(reply: R) -> Outcome[R]:
    return Outcome(reply)


def with_reply(outcome: Outcome[Any], reply: R) -> Outcome[R]:
    return outcome._replace(reply=reply)


DONE: Final[Outcome[None]] = Outcome(None)
