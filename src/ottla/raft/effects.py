"""What the quorum wants done. A driver carries effects out in their order.

What stands behind a Persist happens after that is durable; this alone keeps votes from being forgotten. Appends need
not be durable before the next effect: the driver says `flushed` when they are, and only then they count.
"""

from dataclasses import dataclass

from ottla.env.ports import Buffer
from ottla.raft.log_view import Batch, ControlRecord, OffsetAndEpoch
from ottla.raft.messages import Destination, Request, Response
from ottla.raft.quorum_state import ElectionState


@dataclass(frozen=True, slots=True)
class Persist:
    """Write this to quorum-state and sync it, before anything that follows."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class AppendControl:
    """As leader: one control batch of these records at the end of the log, then sync."""

    base_offset: int
    epoch: int
    records: tuple[ControlRecord, ...]


@dataclass(frozen=True, slots=True)
class Append:
    """As follower: these batches of the leader, as they are, then sync."""

    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """Everything from this offset on goes away."""

    end_offset: int


@dataclass(frozen=True, slots=True)
class StoreSnapshotChunk:
    snapshot: OffsetAndEpoch
    position: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class InstallSnapshot:
    """All of it is here: check it, make it durable, drop the whole log, then tell `snapshot_installed` or `_failed`."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class DropDownload:
    """The parts of this snapshot that were stored are of no use."""

    snapshot: OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Send:
    """What comes back goes to `response`, with the same destination and correlation id."""

    to: Destination
    correlation_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to the request that came with this token."""

    token: object
    response: Response


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below this offset is in the log of a majority."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class LeaderChanged:
    """`leader_id` is -1 while nobody is known to lead."""

    leader_id: int
    epoch: int


Effect = (
    Persist
    | AppendControl
    | Append
    | Truncate
    | StoreSnapshotChunk
    | InstallSnapshot
    | DropDownload
    | Send
    | Reply
    | Committed
    | LeaderChanged
)
