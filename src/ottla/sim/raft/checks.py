"""What must hold whatever happens. Each check is made at the moment at which it could first fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.raft.log_view import Batch, VotersRecord
from ottla.raft.quorum_state import NOBODY, ElectionState
from ottla.raft.voters import ReplicaKey, VoterSet

if TYPE_CHECKING:
    from ottla.sim.raft.member import Member
    from ottla.sim.raft.storage import Snapshot


class Violation(AssertionError):
    """A promise of the quorum was broken."""


class Checks:
    def __init__(self, members: Callable[[], list[Member]]) -> None:
        self._members = members
        self.leaders: dict[int, int] = {}
        self.digests: dict[int, int] = {0: 0}
        """Of all committed records below an offset."""
        self.committed = 0
        self._voters_at: dict[int, VoterSet] = {}
        """By the offsets of committed records."""
        self._followed_by: dict[tuple[int, int], tuple[bytes, int, int]] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._high_watermarks: dict[int, int] = {}

    def leads(self, member: Member, epoch: int) -> None:
        """One leader an epoch, which no one leads twice; and he has everything that was committed before."""
        if epoch in self.leaders:
            raise Violation(f"node {member.id} leads epoch {epoch}, which node {self.leaders[epoch]} led already")
        self.leaders[epoch] = member.id
        files = member.storage.now
        if files.end_offset < self.committed:
            raise Violation(
                f"node {member.id} leads epoch {epoch} and has {files.end_offset} of {self.committed} committed"
            )
        for batch in files.batches:
            known = self.digests.get(batch.next_offset)
            if known is not None and batch.base_offset in self.digests:
                digest = digest_of(self.digests[batch.base_offset], batch)
                if digest != known:
                    raise Violation(f"node {member.id} leads epoch {epoch} with other records at {batch.base_offset}")

    def appends(self, member: Member, batch: Batch, epoch_before: int) -> None:
        """Log matching: the same offset and epoch is the same batch after the same one, in whatever log."""
        found = (bytes(batch.data), batch.next_offset, epoch_before)
        known = self._followed_by.setdefault((batch.base_offset, batch.epoch), found)
        if known != found:
            raise Violation(
                f"node {member.id} has another batch at {batch.base_offset} of epoch {batch.epoch}, or before it"
            )

    def votes(self, voter: ReplicaKey, state: ElectionState) -> None:
        if state.voted_id == NOBODY:
            return
        self._one_vote(voter, state.epoch, ReplicaKey(state.voted_id, state.voted_directory_id))

    def grants(self, member: Member, epoch: int, candidate: ReplicaKey) -> None:
        self._one_vote(member.key, epoch, candidate)
        state = member.storage.synced.state
        if state is None or state.epoch != epoch or state.voted_id != candidate.id:
            raise Violation(f"node {member.id} told of a vote in epoch {epoch} that it had not persisted")

    def _one_vote(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey) -> None:
        known = self._votes.setdefault((voter, epoch), candidate)
        if known.id != candidate.id:
            raise Violation(f"node {voter.id} voted for {known.id} and for {candidate.id} in epoch {epoch}")

    def high_watermark(self, epoch: int, offset: int) -> None:
        """Of a leader: never goes back while he leads."""
        if offset < self._high_watermarks.get(epoch, -1):
            raise Violation(f"in epoch {epoch} the high watermark went from {self._high_watermarks[epoch]} to {offset}")
        self._high_watermarks[epoch] = offset

    def commits(self, member: Member, offset: int, *, is_leader: bool) -> None:
        """All who ever apply a record apply the same one, and it is durable on a majority of those who vote."""
        if is_leader and offset > self.committed:
            voters = member.quorum.voters
            durable = [
                other
                for other in self._members()
                if voters.has(other.key) and other.storage.synced.end_offset >= offset
            ]
            if len(durable) < voters.majority:
                raise Violation(
                    f"node {member.id} committed {offset}, which is durable on {[m.id for m in durable]} alone"
                )
        for batch in member.storage.now.batches:
            if batch.base_offset >= member.applied and batch.next_offset <= offset:
                if batch.base_offset != member.applied:
                    raise Violation(f"node {member.id} has nothing between {member.applied} and {batch.base_offset}")
                self._apply(member, batch)
        if member.applied != offset:
            raise Violation(f"node {member.id} committed {offset}, but could apply only up to {member.applied}")

    def _apply(self, member: Member, batch: Batch) -> None:
        member.digest = digest_of(member.digest, batch)
        member.applied = batch.next_offset
        self._voters_at.update((at, record.voters) for at, record in batch.controls if isinstance(record, VotersRecord))
        known = self.digests.setdefault(batch.next_offset, member.digest)
        if known != member.digest:
            raise Violation(f"node {member.id} applied other records up to {batch.next_offset} than were committed")
        self.committed = max(self.committed, batch.next_offset)

    def takes_snapshot(self, member: Member, snapshot: Snapshot) -> None:
        """It stands for all records before its offset, also for those that say who votes."""
        latest = max((at for at in self._voters_at if at < snapshot.id.offset), default=None)
        if latest is not None and snapshot.voters != self._voters_at[latest]:
            raise Violation(
                f"node {member.id} has a snapshot at {snapshot.id.offset} with the voters {snapshot.voters}, but those "
                f"of offset {latest}, {self._voters_at[latest]}, were committed"
            )

    def loads(self, member: Member, offset: int, digest: int) -> None:
        if self.digests.get(offset) != digest:
            raise Violation(f"node {member.id} loaded a snapshot at {offset} that is not what was committed")


def digest_of(before: int, batch: Batch) -> int:
    return crc32(b"%d %d %b" % (batch.base_offset, batch.epoch, bytes(batch.data)), before)
