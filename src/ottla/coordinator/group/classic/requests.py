"""What members ask and are told, without the versions of the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ottla.model.errors import ErrorCode

NO_GENERATION = -1
NO_MEMBER_ID = ""


class Protocol(NamedTuple):
    """A way to share out the work that a member can follow, and what it says under it; a consumer: its topics."""

    name: str
    metadata: bytes


class Client(NamedTuple):
    """Who is at the other end of the connection."""

    id: str
    host: str


class JoinRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    client: Client
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    takes_id_first: bool = True
    """From version 4 on a new member is given an id and comes again with it (KIP-394)."""
    can_skip_assignment: bool = True
    """From version 9 on a leader can be told that there is nothing to assign (KIP-814)."""
    reason: str | None = None


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.none
    member_id: str = NO_MEMBER_ID
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[JoinedMember] = ()


class SyncRequest(NamedTuple):
    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Sequence[tuple[str, bytes]] = ()


class SyncAnswer(NamedTuple):
    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Leaving(NamedTuple):
    """One of those that a LeaveGroup names: by its id, or, for an administrator, by its instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class LeaveAnswer(NamedTuple):
    """Errors in the order of the request."""

    errors: Sequence[ErrorCode]


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client: Client
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[DescribedMember] = ()
    exists: bool = True
    why_absent: str | None = None


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str = "classic"


JoinCallback = Callable[[JoinAnswer], None]
SyncCallback = Callable[[SyncAnswer], None]
