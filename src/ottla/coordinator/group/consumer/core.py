"""What all operations on consumer groups share: the table of groups, the world around them, the sink of events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.group.consumer.metadata_hash import TopicHashes
from ottla.coordinator.group.events import Event, EventSink
from ottla.coordinator.group.neighbours import NOBODY, Neighbours
from ottla.coordinator.machine import Outcome, Timers
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode, KafkaError

T = TypeVar("T")
R = TypeVar("R")
MAX_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Limits:
    """`group.consumer.*` of the broker's config."""

    max_size: int = MAX_INT
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is the default."""
    pattern_refresh_ms: int = 10 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """`consumer.*` of one group."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5000
    assignment_interval_ms: int = 1000


class Background(Protocol):
    """Work that is too much for the loop, by name."""

    def is_running(self, name: object) -> bool: ...
    def start(
        self,
        name: object,
        function: Callable[..., T],
        args: tuple[Any, ...],
        done: Callable[[T], Outcome[Any]],
        failed: Callable[[BaseException], Outcome[Any]],
    ) -> None:
        """Function and arguments go to another process; what comes back is an operation like any."""


class Downgrades(Protocol):
    """When a group has only classic members, it can become a classic group."""

    def without(self, group: ConsumerGroup, leaving: Sequence[Member], reply: R) -> Outcome[R] | None:
        """The group without some members, as a classic one; None: it stays a consumer group."""

    def is_last(self, group: ConsumerGroup, replaced: Member) -> bool:
        """Whether no consumer is left once a classic member has taken the place of this one."""

    def replaced_by(self, group: ConsumerGroup, joining: Member, *, is_stale: bool) -> Outcome[None]: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What comes from outside."""

    timers: Timers
    background: Background
    now_ms: Callable[[], int]
    new_id: Callable[[], str]
    image: Callable[[], MetadataImage]
    settings: Callable[[str], Settings]
    limits: Limits
    note: EventSink


class Core:
    def __init__(self, timeline: Timeline, around: Surroundings) -> None:
        self.timeline = timeline
        self.groups: TimelineDict[str, ConsumerGroup] = TimelineDict(timeline)
        self.timers = around.timers
        self.background = around.background
        self.neighbours: Neighbours = NOBODY
        self.downgrades: Downgrades  # told by `ConsumerGroups.migrate`, which knows the classic groups
        self.now_ms = around.now_ms
        self.new_id = around.new_id
        self.image = around.image
        self.settings = around.settings
        self.limits = around.limits
        self.hashes = TopicHashes(around.image)
        self._note = around.note

    def note(self, kind: Callable[..., Event], group: ConsumerGroup, epoch: int, *facts: Any) -> None:
        self._note(kind(self.now_ms(), group.id, epoch, *facts))

    def hash_of(self, group: ConsumerGroup, topics: Collection[str]) -> int:
        """The metadata hash of topics, which are the group's or what these are about to be."""
        if topics is not group.counts.topics:
            return self.hashes.of(topics)
        state = (group.counts.topics_changed, self.hashes.generation)
        if group.known_hash is None or group.known_hash[0] != state:
            group.known_hash = (state, self.hashes.of(topics))
        return group.known_hash[1]

    def group(self, group_id: str) -> ConsumerGroup:
        """GROUP_ID_NOT_FOUND if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            raise self.absent(group_id)
        return group

    def absent(self, group_id: str) -> KafkaError:
        if self.neighbours.has(group_id):
            return KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group.")
        return KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} not found.")
