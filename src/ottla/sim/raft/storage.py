"""What one replica keeps: quorum-state, log, snapshots; as it sees them, and as a power loss would leave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from ottla.raft.log_view import (
    BOOTSTRAP_SNAPSHOT,
    Batch,
    ControlHistory,
    LogView,
    OffsetAndEpoch,
)
from ottla.raft.quorum_state import ElectionState
from ottla.raft.voters import VoterSet


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A digest stands for all records up to its offset; padding makes it worth more than one chunk."""

    id: OffsetAndEpoch
    digest: int
    kraft_version: int
    voters: VoterSet | None
    size: int

    def read(self, position: int, max_bytes: int) -> bytes:
        return bytes(min(max_bytes, self.size - position))


@dataclass(slots=True)
class Files:
    state: ElectionState | None = None
    batches: list[Batch] = field(default_factory=list)
    start_offset: int = 0
    snapshots: dict[OffsetAndEpoch, Snapshot] = field(default_factory=dict)

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    def copy(self) -> Files:
        return Files(self.state, list(self.batches), self.start_offset, dict(self.snapshots))

    def view(self, static_voters: VoterSet, bootstrap: VoterSet | None) -> LogView:
        """What a driver tells the quorum when it starts."""
        latest = max(self.snapshots, default=None)
        last_epoch = self.batches[-1].epoch if self.batches else 0
        if latest is not None and (latest.offset > self.end_offset or latest.epoch > last_epoch):
            self.batches.clear()  # it crashed while a snapshot replaced the log
            self.start_offset = latest.offset
        controls = ControlHistory(static_voters)
        snapshots = sorted(self.snapshots)
        if bootstrap is not None:
            controls.restart(-1, 1, bootstrap)
            snapshots = snapshots or [BOOTSTRAP_SNAPSHOT]
        if latest is not None:
            at = self.snapshots[latest]
            controls.restart(latest.offset - 1, at.kraft_version, at.voters)
        log = LogView(controls, self.start_offset, self.start_offset, 0, snapshots=snapshots)
        for batch in self.batches:
            newer = [(offset, record) for offset, record in batch.controls if latest is None or offset >= latest.offset]
            log.append(batch.next_offset, batch.epoch, newer)
        log.durable_offset = log.start_offset  # the rest may be in the page cache only, from before a kill -9
        return log


class Storage:
    def __init__(self, directory_id: UUID) -> None:
        self.directory_id = directory_id
        self.now = Files()
        self.synced = Files()

    def persist(self, state: ElectionState) -> None:
        self.now.state = self.synced.state = state

    def append(self, batches: tuple[Batch, ...]) -> None:
        for batch in batches:
            assert batch.base_offset == self.now.end_offset, (
                f"{batch.base_offset} does not follow {self.now.end_offset}"
            )
            self.now.batches.append(batch)

    def truncate(self, end_offset: int) -> None:
        while self.now.batches and self.now.batches[-1].next_offset > end_offset:
            assert self.now.batches[-1].base_offset >= end_offset, f"{end_offset} is within a batch"
            self.now.batches.pop()

    def sync(self, batches: list[Batch]) -> None:
        """The log as it was when the sync began, but for what was trimmed since."""
        self.synced.start_offset = self.now.start_offset
        self.synced.batches = [batch for batch in batches if batch.base_offset >= self.now.start_offset]

    def add_snapshot(self, snapshot: Snapshot) -> None:
        self.now.snapshots[snapshot.id] = self.synced.snapshots[snapshot.id] = snapshot

    def trim(self, snapshot: OffsetAndEpoch) -> None:
        for files in (self.now, self.synced):
            files.batches = [batch for batch in files.batches if batch.base_offset >= snapshot.offset]
            files.start_offset = max(files.start_offset, snapshot.offset)
            files.snapshots = {id: kept for id, kept in files.snapshots.items() if id.offset >= snapshot.offset}

    def restart_at(self, snapshot: Snapshot) -> None:
        self.add_snapshot(snapshot)
        for files in (self.now, self.synced):
            files.batches, files.start_offset = [], snapshot.id.offset
            files.snapshots = {snapshot.id: snapshot}

    def lose_power(self, random: Random) -> int:
        """What was not synced is gone, or a first part of it is there after all. Gives how many batches are gone."""
        before = self.now
        common = 0
        for mine, synced in zip(before.batches, self.synced.batches, strict=False):
            if mine is not synced:
                break
            common += 1
        self.now = self.synced.copy()
        if common == len(self.synced.batches):
            survive = random.randint(0, len(before.batches) - common)
            self.now.batches += before.batches[common : common + survive]
        self.synced = self.now.copy()
        return max(len(before.batches) - len(self.now.batches), 0)
