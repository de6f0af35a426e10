"""What happened to a group and why, as plain facts in the order of their happening.

Both protocols tell their story in these words. `generation` is the generation of a classic group and the epoch of a
consumer group. Facts are noted when they are decided, so one may be told that is undone when its record is not stored;
what they hold is never changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

Topic = UUID | str
Partitions = Mapping[Topic, Collection[int]]


class Cause(Enum):
    """Why a rebalance began."""

    MEMBER_JOINED = auto()
    MEMBER_LEFT = auto()
    MEMBER_EXPIRED = auto()  # its session ran out
    SYNC_MISSED = auto()  # it joined, but never asked for its assignment
    JOIN_MISSED = auto()  # a classic member of a consumer group was told to join again, and did not
    LEADER_REJOINED = auto()  # most likely the topics have changed
    MEMBER_CHANGED = auto()  # it joined again with another subscription or other protocols
    STATIC_MEMBER_CHANGED_PROTOCOL = auto()
    STATIC_MEMBER_RETURNED = auto()  # while the leader was assigning to its former self
    ASSIGNMENT_NOT_STORED = auto()
    OVER_CAPACITY = auto()
    # of consumer groups alone
    PARTITIONS_CHANGED = auto()  # a topic was created or deleted, or has got more partitions or other racks
    ASSIGNOR_CHANGED = auto()
    STATIC_MEMBER_WENT_AWAY = auto()  # for a while, as it says: its partitions stay with it
    REVOCATION_MISSED = auto()  # it did not give up its partitions in time
    PROTOCOL_CHANGED = auto()  # the group has moved to the other protocol


@dataclass(frozen=True, slots=True)
class Event:
    at_ms: int
    group_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class IdGiven(Event):
    """A new member has been given an id and is expected back with it."""

    member_id: str
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class IdUnused(Event):
    """It did not come back in time, or left before it was in."""

    member_id: str
    left: bool


@dataclass(frozen=True, slots=True)
class MemberJoined(Event):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    reason: str | None
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    """What clients know as max.poll.interval.ms."""
    subscription: tuple[str, ...] = ()
    """Topics, in order, and patterns as they are written; empty where that cannot be known."""


@dataclass(frozen=True, slots=True)
class MemberRejoined(Event):
    """A member has heard of the rebalance. Those who are late delay everyone."""

    member_id: str
    reason: str | None
    subscription: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced(Event):
    """The same instance is back under a new id; whoever still uses the old one is fenced."""

    instance_id: str
    old_member_id: str
    member_id: str
    rebalances: bool
    client_id: str = ""
    client_host: str = ""


@dataclass(frozen=True, slots=True)
class MemberFenced(Event):
    """Someone used the instance id of another; without one, an epoch that is not its own."""

    instance_id: str | None
    member_id: str
    operation: str


@dataclass(frozen=True, slots=True)
class MemberRefused(Event):
    """The group is full, or there is no protocol that all know."""

    member_id: str
    client_id: str
    error: str


@dataclass(frozen=True, slots=True)
class MemberLeft(Event):
    member_id: str
    instance_id: str | None
    client_id: str
    reason: str | None
    by_administrator: bool


@dataclass(frozen=True, slots=True)
class MemberExpired(Event):
    """Nothing was heard of it for its session timeout."""

    member_id: str
    instance_id: str | None
    client_id: str
    session_timeout_ms: int
    was_joining: bool


@dataclass(frozen=True, slots=True)
class RebalanceStarted(Event):
    cause: Cause
    member_ids: tuple[str, ...]
    reason: str | None
    is_initial: bool


@dataclass(frozen=True, slots=True)
class JoinsCompleted(Event):
    """A new generation has begun; its members now wait for the leader."""

    members: int
    leader: str
    protocol: str
    dropped: tuple[str, ...]
    """Members that did not join again in time."""
    took_ms: int


@dataclass(frozen=True, slots=True)
class NobodyJoined(Event):
    """The time for joining was up, and only static members are there, none of whom came."""

    members: int


@dataclass(frozen=True, slots=True)
class AssignmentReceived(Event):
    """From the leader; it counts once it is committed."""

    leader: str
    took_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceCompleted(Event):
    assignments: tuple[tuple[str, bytes], ...]
    """Member and what it was given, as the leader wrote it."""
    without: tuple[str, ...]
    """Members for whom the leader said nothing."""


@dataclass(frozen=True, slots=True)
class SyncsMissed(Event):
    """These joined, and did not ask for their assignment within the rebalance timeout."""

    member_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupEmptied(Event):
    """The last member is gone."""

    dropped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupLoaded(Event):
    """A coordinator has taken over: its members are awaited as if they had just been heard."""

    members: int


@dataclass(frozen=True, slots=True)
class GroupDeleted(Event):
    """By an administrator, or with the last of its offsets."""


# -- of consumer groups alone: there is no barrier, each member goes to the new epoch at its own pace


@dataclass(frozen=True, slots=True)
class SubscriptionChanged(Event):
    member_id: str
    subscription: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StaticMemberWentAway(Event):
    """It left for a while and keeps its partitions, unless its session runs out before it is back."""

    instance_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class EpochBumped(Event):
    """The group has a new epoch, because something about its members or its topics has changed."""

    cause: Cause
    member_ids: tuple[str, ...]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TargetComputed(Event):
    """Who is to have what in this epoch; all members, whether something changes for them or not."""

    assignor: str
    targets: Mapping[str, Partitions]
    took_ms: int


@dataclass(frozen=True, slots=True)
class RevocationAsked(Event):
    """Others wait for what this member has to give up."""

    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RevocationAcknowledged(Event):
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class RevocationMissed(Event):
    """It did not give up its partitions within its rebalance timeout, and is no longer a member."""

    member_id: str
    instance_id: str | None
    client_id: str
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class MemberReconciled(Event):
    """It owns what the target gives it, and has reached the epoch of the group."""

    member_id: str


@dataclass(frozen=True, slots=True)
class GroupReconciled(Event):
    """All members have: the group is stable."""

    members: int


EventSink = Callable[[Event], None]
