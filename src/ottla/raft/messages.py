"""What replicas of the quorum say to each other, as plain values. rpc.py has their form on the wire.

A response has two errors, as on the wire: `error` of the whole request, `partition_error` of `__cluster_metadata-0`.
Every response also says who leads in which epoch, as far as the one who answers knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.raft.log_view import Batch, OffsetAndEpoch
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange

NONE: Final = ErrorCode.none


class Destination(NamedTuple):
    """Where a request goes. Bootstrap servers have no known node id; they get -2, -3 ... as in Kafka."""

    id: int
    host: str
    port: int


class Leader(NamedTuple):
    id: int = -1
    epoch: int = -1
    endpoints: tuple[Endpoint, ...] = ()


NO_LEADER: Final = Leader()


@dataclass(frozen=True, slots=True)
class VoteRequest:
    cluster_id: str | None
    epoch: int
    replica: ReplicaKey
    last: OffsetAndEpoch
    pre_vote: bool
    voter: ReplicaKey | None = None
    """Whom the request is meant for."""


@dataclass(frozen=True, slots=True)
class VoteResponse:
    leader: Leader = NO_LEADER
    granted: bool = False
    partition_error: ErrorCode = NONE
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    cluster_id: str | None
    leader: Leader
    voter: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    leader: Leader = NO_LEADER
    partition_error: ErrorCode = NONE
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    cluster_id: str | None
    leader: Leader
    successors: tuple[ReplicaKey, ...] = ()
    """The other voters, the one with the longest log first."""


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    leader: Leader = NO_LEADER
    partition_error: ErrorCode = NONE
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class FetchRequest:
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    """Whom the sender takes for the leader leads in this epoch."""
    offset: int
    last_fetched_epoch: int
    high_watermark: int = -1
    max_wait_ms: int = 500
    max_bytes: int = 1 << 20


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """`read_from` is in an answer that leaves: the driver puts in the batches from there. `batches` is what arrives."""

    leader: Leader = NO_LEADER
    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    read_from: int | None = None
    max_bytes: int = 0
    batches: tuple[Batch, ...] = ()
    partition_error: ErrorCode = NONE
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot: OffsetAndEpoch
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """As with FetchResponse: the driver reads `data` at `position` when the answer leaves."""

    leader: Leader = NO_LEADER
    snapshot: OffsetAndEpoch | None = None
    size: int = 0
    position: int = 0
    max_bytes: int = 0
    data: Buffer = b""
    partition_error: ErrorCode = NONE
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    cluster_id: str | None
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout_ms: int = 2000
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    cluster_id: str | None
    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class ChangeVotersResponse:
    """To AddRaftVoter and RemoveRaftVoter."""

    error: ErrorCode = NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    cluster_id: str | None
    voter: ReplicaKey
    epoch: int
    endpoints: tuple[Endpoint, ...]
    kraft_versions: VersionRange


@dataclass(frozen=True, slots=True)
class UpdateVoterResponse:
    leader: Leader = NO_LEADER
    error: ErrorCode = NONE


@dataclass(frozen=True, slots=True)
class KRaftVersionsRequest:
    """ApiVersions, asked of one who is to become a voter."""


@dataclass(frozen=True, slots=True)
class KRaftVersionsResponse:
    kraft_versions: VersionRange | None = None
    error: ErrorCode = NONE


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | KRaftVersionsRequest
)

Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | ChangeVotersResponse
    | UpdateVoterResponse
    | KRaftVersionsResponse
)
