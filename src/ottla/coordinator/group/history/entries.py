"""What is remembered of a group: its rebalances and other incidents, each with the evidence that there was.

Times are milliseconds since 1970. An entry says what was seen, never what may be concluded from it: conclusions are
drawn when somebody asks (`departures.py`, `findings.py`), and can get better without the history being written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
KEPT_ENTRIES: Final = 64
"""Of a group. Older ones are overwritten."""
KEPT_NAMES: Final = 20
"""How many members or partitions an entry names; of more it says how many there were."""
KEPT_CHANGES: Final = 40
KEPT_MEMBERS: Final = 200
"""On the roll."""
KEPT_TEXT: Final = 300
"""Characters of what clients call themselves and say. Names that Kafka allows are shorter, also with an id added."""


def kept(text: str) -> str:
    """A text, cut if it is too long; its end stays, in which ids differ."""
    return text if len(text) <= KEPT_TEXT else f"{text[: KEPT_TEXT - 41]}…{text[-40:]}"


def _kept_all(texts: list[str]) -> list[str]:
    return [kept(text) for text in texts] if any(len(text) > KEPT_TEXT for text in texts) else texts


def named(topics: Sequence[str]) -> list[str]:
    """As many as an entry names."""
    return list(topics[:KEPT_NAMES])


class What(Enum):
    """What happened. The values are stored."""

    JOINED = "joined"
    REJOINED = "rejoined"  # a member of a stable group joined again, and nothing else is known
    LEADER_REJOINED = "leader rejoined"
    SUBSCRIPTION_CHANGED = "subscription changed"
    PARTITIONS_CHANGED = "partitions changed"
    ASSIGNOR_CHANGED = "assignor changed"
    PROTOCOL_CHANGED = "protocol changed"
    HANDED_OVER = "handed over"  # the second step of cooperative rebalancing: partitions were given up
    LEFT = "left"
    REMOVED = "removed"  # by somebody else
    EXPIRED = "expired"
    REJOIN_MISSED = "rejoin missed"
    SYNC_MISSED = "sync missed"
    REVOCATION_MISSED = "revocation missed"
    STATIC_REPLACED = "static member replaced"
    STATIC_AWAY = "static member away"
    FENCED = "fenced"
    REFUSED = "refused"
    OVER_CAPACITY = "over capacity"
    NOT_STORED = "not stored"
    TOOK_OVER = "took over"  # a coordinator, after a restart or an election
    COMMITS_STALLED = "commits stalled"


DEPARTURES: Final = frozenset(
    {What.LEFT, What.REMOVED, What.EXPIRED, What.REJOIN_MISSED, What.SYNC_MISSED, What.REVOCATION_MISSED}
)


class End(Enum):
    """How a connection ended, as far as this side can see. The values are stored."""

    CLOSED = "closed"
    RESET = "reset"
    BY_BROKER = "by broker"


@dataclass(slots=True)
class Who:
    id: str
    client: str = ""
    host: str = ""
    instance: str | None = None

    def __post_init__(self) -> None:
        self.id, self.client, self.host = kept(self.id), kept(self.client), kept(self.host)
        self.instance = None if self.instance is None else kept(self.instance)

    @property
    def label(self) -> str:
        """Short, and different for members that have the same name."""
        return f"{self.instance or self.client or 'member'}#{self.id[-4:]}"


@dataclass(slots=True)
class Evidence:
    """What was known of a member when it was gone, and what became known of it shortly after."""

    joined: int | None = None
    heard: int | None = None
    committed: int | None = None
    """Its last commit of offsets; None if there was none that is known of."""
    session_ms: int = 0
    poll_ms: int = 0
    """Its rebalance timeout, which is a client's max.poll.interval.ms."""
    partitions: int = 0
    """How many it had."""
    peer: str | None = None
    """Address and port: two members with the same one used the same connection."""
    closed: int | None = None
    end: End | None = None
    returned: int | None = None
    """When it was heard again under the id that was no longer a member's."""
    taken_over: int | None = None
    """When this coordinator took over, if it did while this was a member: before that it knows of no connection."""
    stood_still_ms: int = 0
    """For how long at once the coordinator's own node stood still while something was expected of the member."""


@dataclass(slots=True)
class Change:
    at: int
    what: What
    who: Who | None = None
    reason: str | None = None
    """As the client gave it."""
    peer: str | None = None
    """The connection of one that joined."""
    old_id: str | None = None
    """Whom a static member replaced."""
    rebalances: bool = True
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    """Topics, or topics with their number of partitions: `orders: 6`."""
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        self.reason = None if self.reason is None else kept(self.reason)
        self.old_id = None if self.old_id is None else kept(self.old_id)
        self.before, self.after = _kept_all(self.before), _kept_all(self.after)


@dataclass(slots=True)
class Slow:
    """A member for which the others waited."""

    label: str
    after_ms: int


@dataclass(slots=True)
class Move:
    topic: str
    partition: int
    source: str | None
    target: str | None
    """Labels of members; None where there was or is no owner."""

    def __post_init__(self) -> None:
        self.topic = kept(self.topic)


class Outcome(Enum):
    UNDER_WAY = "under way"
    COMPLETED = "completed"
    EMPTY = "empty"  # nobody was left
    SUPERSEDED = "superseded"  # another began before it was complete
    LOST = "lost"  # the coordinator ended before


@dataclass(slots=True)
class Rebalance:
    number: int
    at: int
    protocol: str
    generation: int = 0
    is_first: bool = False
    """The group had no members before."""
    changes: list[Change] = field(default_factory=list)
    """The first are what began it, the others came while it was under way."""
    further: dict[str, int] = field(default_factory=dict)
    """How many more there were that are not told, by what they are."""
    outcome: Outcome = Outcome.UNDER_WAY
    ended: int | None = None
    join_ms: int | None = None
    assign_ms: int | None = None
    settle_ms: int | None = None
    """Storing the assignment and telling it; of a consumer group: until all members had reconciled."""
    members: int = 0
    leader: str | None = None
    assignor: str | None = None
    slow: list[Slow] = field(default_factory=list)
    partitions: int = 0
    moved: int = 0
    moves: list[Move] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    """Members that got nothing."""
    idle_count: int = 0
    topics: dict[str, int] = field(default_factory=dict)
    """Those that members subscribe to, with their number of partitions."""
    stood_still_ms: int = 0
    """How long the coordinator's own node stood still meanwhile: nobody was slow for that long."""


@dataclass(slots=True)
class Incident:
    """Something that is no rebalance. One that happens again and again is counted."""

    number: int
    at: int
    change: Change
    count: int = 1
    last: int = 0


Entry = Rebalance | Incident


@dataclass(slots=True)
class Present:
    """A member, as it was when the history was last written."""

    who: Who
    joined: int
    heard: int
    committed: int | None
    peer: str | None
    session_ms: int
    poll_ms: int
    partitions: int
    subscription: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.subscription = _kept_all(self.subscription)


@dataclass(slots=True)
class Roll:
    """Who is in the group. Written when that changes, so that a new coordinator knows whom it waits for."""

    at: int
    next_number: int
    members: list[Present] = field(default_factory=list)
