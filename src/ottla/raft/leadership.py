"""What a leader keeps: how far the others' logs are, who fetched lately, whose fetches wait, what change is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.raft.connections import FAR
from ottla.raft.log_view import LogView
from ottla.raft.messages import AddVoterRequest, FetchRequest, FetchResponse
from ottla.raft.settings import QuorumSettings
from ottla.raft.voters import NO_DIRECTORY, ReplicaKey, VoterSet

UNKNOWN: Final = -1
_OBSERVER_SESSION_MS: Final = 300_000
_CAUGHT_UP_WITHIN_MS: Final = 3_600_000


@dataclass(slots=True)
class Progress:
    """One replica, as its fetches tell. The leader's own offset is that of its last sync."""

    key: ReplicaKey
    end_offset: int = UNKNOWN
    last_fetch_ms: int = UNKNOWN
    last_caught_up_ms: int = UNKNOWN
    leader_end_at_last_fetch: int = UNKNOWN

    def fetched(self, offset: int, leader_end: int, now: int) -> None:
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now)
        elif 0 < self.leader_end_at_last_fetch <= offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.leader_end_at_last_fetch = leader_end
        self.last_fetch_ms = max(self.last_fetch_ms, now)
        self.end_offset = offset


@dataclass(slots=True)
class ParkedFetch:
    request: FetchRequest
    expires_at: int
    answer: FetchResponse
    """What to say if nothing happens until then."""


@dataclass(slots=True)
class VoterChange:
    """AddRaftVoter or RemoveRaftVoter under way; there is one at a time."""

    token: object
    expires_at: int
    adding: AddVoterRequest | None = None
    offset: int | None = None
    """Of the Voters record, once it is appended."""
    is_answered: bool = False


class Leadership:
    def __init__(
        self,
        me: ReplicaKey,
        voters: VoterSet,
        log: LogView,
        granting: tuple[int, ...],
        settings: QuorumSettings,
        now: int,
    ) -> None:
        self.me = me
        self.epoch_start = log.end_offset
        self.granting = granting
        self.voters = {key.id: Progress(key) for key in voters.keys}
        self.observers: dict[ReplicaKey, Progress] = {}
        self.parked: dict[object, ParkedFetch] = {}
        self.change: VoterChange | None = None
        self.volatile_voters: VoterSet | None = None
        """kraft.version 0: what voters said of themselves, for the day of the upgrade."""
        self.wants_to_resign = False
        self.begin_epoch_at = now
        self._settings = settings
        self._fetched: dict[int, None] = {}
        self._directories: dict[int, tuple[UUID, int]] = {}
        self._check_quorum_at = now + settings.check_quorum_ms
        self.own.end_offset = log.durable_offset

    @property
    def own(self) -> Progress:
        return self._progress(self.me)

    def has_voter(self, key: ReplicaKey) -> bool:
        progress = self.voters.get(key.id)
        return progress is not None and progress.key.covers(key)

    def find(self, key: ReplicaKey) -> Progress | None:
        return self.voters[key.id] if self.has_voter(key) else self.observers.get(key)

    def _progress(self, key: ReplicaKey) -> Progress:
        return self.voters[key.id] if self.has_voter(key) else self.observers.setdefault(key, Progress(key))

    def change_voters(self, voters: VoterSet) -> None:
        """From the moment on that the log names them, committed or not, the new voters count and nobody else."""
        before = dict(self.voters)
        now: dict[int, Progress] = {}
        for key in voters.keys:
            progress = self.find(key) or Progress(key)
            if progress is before.get(key.id):
                del before[key.id]
            self.observers.pop(key, None)
            if progress.key.directory_id == NO_DIRECTORY:
                progress.key = key
            now[key.id] = progress
        self.voters = now
        for progress in before.values():
            self.observers.setdefault(progress.key, progress)

    def is_taken(self, key: ReplicaKey, now: int) -> bool:
        """Whether the voter of this id is somebody else, who fetched a moment ago from another directory.

        Static voters are known by their ids alone. Two processes with one id would have two votes.
        """
        progress = self.voters.get(key.id)
        if progress is None or progress.key.directory_id != NO_DIRECTORY or key.directory_id == NO_DIRECTORY:
            return False
        known, at = self._directories.get(key.id, (key.directory_id, now))
        if known != key.directory_id and now - at < self._settings.fetch_timeout_ms:
            return True
        self._directories[key.id] = key.directory_id, now
        return False

    def fetched(self, key: ReplicaKey, offset: int, leader_end: int, now: int) -> bool:
        """Whether this may move the high watermark."""
        if key.id < 0:
            return False
        self._progress(key).fetched(offset, leader_end, now)
        self.heard_of(key, now)
        return self.has_voter(key)

    def heard_of(self, key: ReplicaKey, now: int) -> None:
        """Once a majority was heard of, the leader may lead for another while."""
        if self.has_voter(key):
            self._fetched[key.id] = None
        needed = len(self.voters) // 2 + 1 - self.has_voter(self.me)
        if len(self._fetched) >= needed:
            self._fetched.clear()
            self._check_quorum_at = now + self._settings.check_quorum_ms

    @property
    def check_quorum_at(self) -> int:
        return FAR if len(self.voters) == 1 and self.has_voter(self.me) else self._check_quorum_at

    def majority_offset(self) -> int:
        """Up to where the logs of a majority are durable; UNKNOWN if too few have fetched."""
        ends = sorted((progress.end_offset for progress in self.voters.values()), reverse=True)
        return ends[len(ends) // 2]

    def to_remind(self, now: int) -> list[ReplicaKey]:
        """The voters that have not fetched for a while: they may not know who leads."""
        patience = self._settings.begin_epoch_ms
        return [
            progress.key
            for progress in self.voters.values()
            if progress.key.id != self.me.id
            and (progress.last_fetch_ms < 0 or now - progress.last_fetch_ms >= patience)
        ]

    def successors(self) -> tuple[ReplicaKey, ...]:
        others = (progress for progress in self.voters.values() if not progress.key.covers(self.me))
        return tuple(p.key for p in sorted(others, key=lambda progress: (-progress.end_offset, progress.key)))

    def is_caught_up(self, key: ReplicaKey, now: int) -> bool:
        """Good enough to become a voter: it once had the whole log, and fetched within the last hour."""
        progress = self.observers.get(key)
        return (
            progress is not None
            and progress.last_caught_up_ms >= 0
            and progress.last_fetch_ms > now - _CAUGHT_UP_WITHIN_MS
        )

    def forget_silent_observers(self, now: int) -> None:
        for key, progress in list(self.observers.items()):
            if now - progress.last_fetch_ms >= _OBSERVER_SESSION_MS and key != self.me:
                del self.observers[key]
