"""What a replica can be, and what it must remember while it is that.

    unattached    in an epoch whose leader it does not know, or cannot reach; may have voted in it
    prospective   asks whether it would get votes (pre-vote, KIP-996) before it disturbs anyone with a new epoch
    candidate     has voted for itself in a new epoch and asks the others to
    leader        appends, and answers fetches
    follower      fetches from the leader
    resigned      was leader, and tells the others that it is not any more

An observer is whoever is not among the voters: only ever unattached or follower (or a leader on his way out).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ottla.raft.leadership import Leadership
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.tally import Tally
from ottla.raft.voters import ReplicaKey


class Role(Enum):
    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


@dataclass(slots=True)
class Unattached:
    election_at: int


@dataclass(slots=True)
class Prospective:
    tally: Tally
    election_ends_at: int


@dataclass(slots=True)
class Candidate:
    tally: Tally
    election_ends_at: int
    is_backing_off: bool = False


@dataclass(slots=True)
class Download:
    snapshot: OffsetAndEpoch
    position: int = 0


@dataclass(slots=True)
class Follower:
    fetch_timeout_at: int
    update_voters_at: int
    has_fetched: bool = False
    """As long as this leader never answered, a pre-vote against him is granted."""
    has_told_leader: bool = False
    """kraft.version 0: this leader knows where this voter listens."""
    download: Download | None = None


@dataclass(slots=True)
class Resigned:
    election_at: int
    successors: tuple[ReplicaKey, ...] = ()
    unacknowledged: dict[int, None] = field(default_factory=dict)


RoleState = Unattached | Prospective | Candidate | Leadership | Follower | Resigned

ROLE_OF: dict[type[RoleState], Role] = {
    Unattached: Role.UNATTACHED,
    Prospective: Role.PROSPECTIVE,
    Candidate: Role.CANDIDATE,
    Leadership: Role.LEADER,
    Follower: Role.FOLLOWER,
    Resigned: Role.RESIGNED,
}
