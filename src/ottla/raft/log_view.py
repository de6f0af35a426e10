"""What the quorum knows of its log without reading it: offsets, epochs, snapshots, and the voters that it names.

The driver tells it at the start what is on disk, and syncs that: after a kill -9 the end of the log may be in the page
cache alone, and a replica that acknowledged it could lose it together with the power. Afterwards the quorum itself
decides on every append and truncation, and keeps this up to date before the driver has carried them out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from ottla.env.ports import Buffer
from ottla.raft.voters import VoterSet

STATIC_VOTERS: Final = -2
"""Offset of voters that are configured and not in the log; those of the snapshot 0-0 have -1, as in Kafka."""


class OffsetAndEpoch(NamedTuple):
    """The end of a log or of an epoch in it, or the name of a snapshot: (end offset, epoch of the last record)."""

    offset: int
    epoch: int


BOOTSTRAP_SNAPSHOT: Final = OffsetAndEpoch(0, 0)


class VotersRecord(NamedTuple):
    voters: VoterSet


class KRaftVersionRecord(NamedTuple):
    version: int


class LeaderChangeRecord(NamedTuple):
    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


ControlRecord = LeaderChangeRecord | KRaftVersionRecord | VotersRecord


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as the quorum sees it. `data` is for the log alone."""

    base_offset: int
    next_offset: int
    epoch: int
    data: Buffer
    controls: tuple[tuple[int, ControlRecord], ...] = ()
    """Offset and content of the control records that change who votes; usually none."""


class Fit(Enum):
    """How the end of a follower's log fits into the leader's."""

    VALID = "valid"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"


class EpochStart(NamedTuple):
    epoch: int
    offset: int


@dataclass(slots=True)
class ControlHistory:
    """The voters and the kraft.version at each offset at which they changed, oldest first."""

    static_voters: VoterSet
    voters_at: list[tuple[int, VoterSet]] = field(default_factory=list)
    versions_at: list[tuple[int, int]] = field(default_factory=list)

    @property
    def voters(self) -> VoterSet:
        return self.voters_at[-1][1] if self.voters_at else self.static_voters

    @property
    def voters_offset(self) -> int:
        return self.voters_at[-1][0] if self.voters_at else STATIC_VOTERS

    @property
    def kraft_version(self) -> int:
        return self.versions_at[-1][1] if self.versions_at else 0

    def note(self, offset: int, record: ControlRecord) -> None:
        match record:
            case VotersRecord(voters):
                self.voters_at.append((offset, voters))
            case KRaftVersionRecord(version):
                self.versions_at.append((offset, version))

    def at(self, offset: int) -> tuple[int, VoterSet | None]:
        """kraft.version and voters as of this offset, both as far as the log says so."""
        versions = [version for at, version in self.versions_at if at <= offset]
        voters = [voters for at, voters in self.voters_at if at <= offset]
        return versions[-1] if versions else 0, voters[-1] if voters else None

    def truncate(self, end: int) -> None:
        self.voters_at = [entry for entry in self.voters_at if entry[0] < end]
        self.versions_at = [entry for entry in self.versions_at if entry[0] < end]

    def forget_before(self, offset: int) -> None:
        """Keeps what holds at this offset, and all that came later."""
        kept_voters = max(bisect_right([at for at, _ in self.voters_at], offset) - 1, 0)
        kept_versions = max(bisect_right([at for at, _ in self.versions_at], offset) - 1, 0)
        del self.voters_at[:kept_voters], self.versions_at[:kept_versions]

    def restart(self, offset: int, kraft_version: int, voters: VoterSet | None) -> None:
        """What a snapshot says holds at its last offset, instead of all that was known."""
        self.voters_at = [(offset, voters)] if voters is not None else []
        self.versions_at = [(offset, kraft_version)] if kraft_version else []


@dataclass(slots=True)
class LogView:
    controls: ControlHistory
    start_offset: int = 0
    end_offset: int = 0
    durable_offset: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    snapshots: list[OffsetAndEpoch] = field(default_factory=list)
    generation: int = 0
    """Counts how often something was taken off its end."""

    @property
    def last_epoch(self) -> int:
        if self.epochs:
            return self.epochs[-1].epoch
        return self.snapshots[-1].epoch if self.snapshots else 0

    @property
    def end(self) -> OffsetAndEpoch:
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        return self.snapshots[-1] if self.snapshots else None

    def append(self, next_offset: int, epoch: int, controls: Iterable[tuple[int, ControlRecord]] = ()) -> None:
        if epoch > self.last_epoch or not self.epochs:
            self.epochs.append(EpochStart(epoch, self.end_offset))
        self.end_offset = next_offset
        for offset, record in controls:
            self.controls.note(offset, record)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch up to this one that the log has, and where it ends."""
        if not self.epochs or epoch > self.last_epoch:
            return self.end
        index = bisect_right(self.epochs, epoch, key=lambda start: start.epoch)
        if index == len(self.epochs):
            return OffsetAndEpoch(self.end_offset, epoch)
        found = OffsetAndEpoch(self.epochs[index].offset, self.epochs[index - 1].epoch if index else epoch)
        if self.snapshots and found == (self.snapshots[0].offset, epoch):
            return self.snapshots[0]
        return found

    def fit(self, offset: int, epoch: int) -> tuple[Fit, OffsetAndEpoch]:
        """How a log that ends at this offset, with a last record of this epoch, fits into this one."""
        if self.start_offset == 0 and offset == 0:
            return Fit.VALID, OffsetAndEpoch(0, 0)
        if self.snapshots:
            first = self.snapshots[0]
            if (
                offset < self.start_offset
                or (offset == self.start_offset and epoch != first.epoch)
                or epoch < first.epoch
            ):
                return Fit.SNAPSHOT, self.snapshots[-1]
        end = self.end_of_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Fit.DIVERGING, end
        return Fit.VALID, OffsetAndEpoch(offset, epoch)

    def common_end(self, diverging: OffsetAndEpoch) -> int:
        """Up to which offset this log can agree with that of a leader who says where the epoch of ours ends in its."""
        if diverging.epoch == 0:
            return min(diverging.offset, self.end_offset)
        mine = self.end_of_epoch(diverging.epoch)
        return min(mine.offset, diverging.offset) if mine.epoch == diverging.epoch else mine.offset

    def truncate(self, end: int) -> None:
        self.generation += 1
        self.end_offset = end
        self.durable_offset = min(self.durable_offset, end)
        self.epochs = [start for start in self.epochs if start.offset < end]
        self.controls.truncate(end)

    def trim(self, start: int) -> None:
        """The log now begins here, where there is a snapshot."""
        self.start_offset = start
        older = [entry for entry in self.epochs if entry.offset <= start]
        newer = [entry for entry in self.epochs if entry.offset > start]
        self.epochs = [EpochStart(older[-1].epoch, start), *newer] if older and start < self.end_offset else newer
        self.snapshots = [snapshot for snapshot in self.snapshots if snapshot.offset >= start]

    def restart_at(self, snapshot: OffsetAndEpoch, kraft_version: int, voters: VoterSet | None) -> None:
        """The log is empty, and what comes next follows this snapshot."""
        self.generation += 1
        self.start_offset = self.end_offset = self.durable_offset = snapshot.offset
        self.epochs = []
        self.snapshots = [snapshot]
        self.controls.restart(snapshot.offset - 1, kraft_version, voters)

    def add_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        if snapshot not in self.snapshots:
            self.snapshots = sorted((*self.snapshots, snapshot))
            self.controls.forget_before(snapshot.offset - 1)
