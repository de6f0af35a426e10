"""Who leads the metadata quorum, in which epoch, and up to which offset its log is committed. No I/O.

    events in                         effects out, to be carried out in their order
    start()                           Persist(voted for myself in a new epoch)
    persisted(state)                  BecomeLeader: append the LeaderChange record, first of its epoch
    appended(end)
    flushed(voter, end)               Committed(high watermark)

Rules that are easy to get wrong:
- An epoch is never used twice. After a restart its last records may be gone (they were not synced), so that an old
  leader which went on in its epoch would write other records under the same (offset, epoch). Kafka starts as
  `resigned` for this.
- A vote is durable before it counts, also the vote for oneself; hence Persist comes back as an event.
- A leader's own records count only when synced, and records of earlier epochs are committed only together with one of
  its own: the high watermark stays unknown until the LeaderChange record is past it.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.raft.quorum_state import NOBODY, ElectionState

UNKNOWN_OFFSET: Final = -1


class Role(Enum):
    UNATTACHED = "unattached"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


@dataclass(frozen=True, slots=True)
class Persist:
    """Write this to quorum-state and sync it; then tell `persisted`."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class BecomeLeader:
    """Append a LeaderChange record in this epoch, then whatever is proposed."""

    epoch: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything below this offset is in the log of a majority."""

    high_watermark: int


Effect = Persist | BecomeLeader | Committed


class Quorum:
    """One voter's view. Static voters (kraft.version 0); so far it must be the only one."""

    def __init__(
        self, node_id: int, voters: tuple[int, ...], stored: ElectionState | None, end_offset: int, last_epoch: int
    ) -> None:
        if voters != (node_id,):
            raise ValueError(f"node {node_id} must be the only voter, but the voters are {voters}")
        self.node_id = node_id
        self.voters = voters
        self.role = Role.UNATTACHED
        # The file may be behind the log (it was lost, or restored from a backup): the log knows of its epochs too.
        self.epoch = max(stored.epoch if stored else 0, last_epoch)
        self.leader_id = NOBODY
        self.voted_id = NOBODY
        self.end_offset = end_offset
        self.high_watermark = UNKNOWN_OFFSET
        self._epoch_start_offset = UNKNOWN_OFFSET
        self._votes: dict[int, None] = {}
        self._synced = dict.fromkeys(voters, UNKNOWN_OFFSET)

    def start(self) -> list[Effect]:
        """Nobody else can lead, so there is no election timeout to wait for."""
        self.role = Role.CANDIDATE
        self.epoch += 1
        self.voted_id = self.node_id
        self._votes.clear()
        return [Persist(self.state)]

    def persisted(self, state: ElectionState) -> list[Effect]:
        if self.role is not Role.CANDIDATE or state != self.state:
            return []
        self._votes[self.node_id] = None
        if len(self._votes) < self._majority:
            return []
        self.role = Role.LEADER
        self.leader_id = self.node_id
        self.voted_id = NOBODY
        self._epoch_start_offset = self.end_offset
        return [Persist(self.state), BecomeLeader(self.epoch, self.voters, tuple(self._votes))]

    def appended(self, end_offset: int) -> None:
        if self.role is not Role.LEADER:
            raise ValueError(f"node {self.node_id} appended up to {end_offset} while it was {self.role.value}")
        self.end_offset = end_offset

    def flushed(self, voter: int, end_offset: int) -> list[Effect]:
        """A voter's log is durable up to here: my own after fsync, another's because its next Fetch says so."""
        if self.role is not Role.LEADER or end_offset <= self._synced[voter]:
            return []
        self._synced[voter] = end_offset
        of_majority = sorted(self._synced.values(), reverse=True)[self._majority - 1]
        if of_majority <= self._epoch_start_offset or of_majority <= self.high_watermark:
            return []
        self.high_watermark = of_majority
        return [Committed(of_majority)]

    def resign(self) -> None:
        """Nothing is appended or committed any more in this epoch."""
        self.role = Role.RESIGNED
        self.leader_id = NOBODY

    @property
    def state(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_id, self.voters)

    @property
    def _majority(self) -> int:
        return len(self.voters) // 2 + 1
