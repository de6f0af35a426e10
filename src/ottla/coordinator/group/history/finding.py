"""What a finding is: a matter that explains a part of a history."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Kind(Enum):
    """What a finding is about. The values are what `--output json` shows."""

    POLL_INTERVAL = "poll-interval"
    SESSION_TOO_SHORT = "session-too-short"
    PAUSED = "paused"
    DIED = "died"
    CRASH_LOOP = "crash-loop"
    STATIC_TOO_LATE = "static-too-late"
    DUPLICATE_INSTANCE = "duplicate-instance-id"
    ROLLING_RESTART = "rolling-restart"
    COMMITS_STALLED = "commits-stalled"
    SLOW_REJOIN = "slow-rejoin"
    SLOW_LEADER = "slow-leader"
    REFUSED = "refused"
    UNHEARD = "unheard"
    HELD_ON = "held-on-to-partitions"
    BROKER_STOOD_STILL = "broker-stood-still"
    REMOVED = "removed"
    UNSUBSCRIBED = "unsubscribed"
    LEFT = "left"
    SCALED_DOWN = "scaled-down"
    RESTARTED = "restarted"
    CLOSED = "closed"
    SCALED_UP = "scaled-up"
    STARTED = "started"
    STATIC_RESTART = "static-restart"
    SUBSCRIPTION_CHANGED = "subscription-changed"
    PARTITIONS_CHANGED = "partitions-changed"
    ASKED_BY_LEADER = "asked-by-leader"
    SETTINGS_CHANGED = "settings-changed"
    OVER_CAPACITY = "over-capacity"
    NOT_STORED = "not-stored"
    IDLE_MEMBERS = "idle-members"


TROUBLE: Final = frozenset(
    {
        Kind.POLL_INTERVAL, Kind.SESSION_TOO_SHORT, Kind.PAUSED, Kind.DIED, Kind.CRASH_LOOP, Kind.STATIC_TOO_LATE,
        Kind.DUPLICATE_INSTANCE, Kind.COMMITS_STALLED, Kind.SLOW_REJOIN, Kind.SLOW_LEADER, Kind.REFUSED, Kind.UNHEARD,
        Kind.HELD_ON, Kind.BROKER_STOOD_STILL, Kind.OVER_CAPACITY, Kind.NOT_STORED,
    }
)  # fmt: skip
"""What somebody should look into; the rest is what groups do."""


@dataclass(slots=True)
class Finding:
    kind: Kind
    summary: str
    last: int
    count: int = 1
    """How often."""
    is_certain: bool = True
    members: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    rebalances: list[int] = field(default_factory=list)
    """Numbers of the entries that it explains."""
