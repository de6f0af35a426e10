"""Incremental fetch sessions (KIP-227): the broker remembers what a client reads, so that requests can be short.

A session has the client's partitions in the order in which they are served; one that gave data moves to the end, so
that a busy partition cannot starve the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.broker.follower_watch import FollowerWatch, Key
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, NO_OFFSET

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_NO_SESSION: Final = 0
_MAX: Final = 0x7FFFFFFF


class Wanted(NamedTuple):
    """What a client asks of one partition."""

    offset: int
    max_bytes: int
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH
    start_offset: int = NO_OFFSET  # of a follower's log


class Told(NamedTuple):
    """What the last answer said of a partition; it is only mentioned again when something differs."""

    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    start_offset: int = NO_OFFSET


@dataclass(slots=True)
class Session:
    id: int
    uses_topic_ids: bool
    epoch: int = 1
    created_ms: int = 0
    last_used_ms: int = 0
    wanted: dict[Key, Wanted] = field(default_factory=dict)
    told: dict[Key, Told] = field(default_factory=dict)
    follower: FollowerWatch | None = None

    @property
    def worth(self) -> tuple[bool, int]:
        """One that is worth less gives way."""
        return self.follower is not None, len(self.wanted)

    def end(self) -> None:
        if self.follower is not None:
            self.follower.close()


class SessionError(Exception):
    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessions:
    def __init__(self, slots: int, eviction_ms: int, random_below: Callable[[int], int]) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._below = random_below
        self._sessions: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.end()

    def create(
        self,
        wanted: dict[Key, Wanted],
        uses_topic_ids: bool,
        now_ms: int,
        follower: FollowerWatch | None = None,
    ) -> Session | None:
        """None where there is no room: the client then sends everything with each request."""
        if not wanted or not self._make_room(now_ms, len(wanted), is_follower=follower is not None):
            return None
        session_id = _NO_SESSION
        while session_id == _NO_SESSION or session_id in self._sessions:
            session_id = self._below(_MAX) + 1
        session = Session(
            session_id, uses_topic_ids, created_ms=now_ms, last_used_ms=now_ms, wanted=wanted, follower=follower
        )
        self._sessions[session_id] = session
        return session

    def end_former(self, replica: int, broker_epoch: int) -> None:
        """Those of a broker's earlier lives: nobody will go on with them, and they would be told of every batch."""
        for session in list(self._sessions.values()):
            follower = session.follower
            if follower is not None and follower.replica == replica and follower.broker_epoch < broker_epoch:
                self.close(session.id)

    def _make_room(self, now_ms: int, size: int, *, is_follower: bool) -> bool:
        """One that was not used for long gives way; else the smallest that has been there for long does to a larger
        one; to a follower, any consumer's does."""
        if len(self._sessions) < self._slots:
            return True
        oldest = min(self._sessions.values(), key=lambda session: session.last_used_ms, default=None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > self._eviction_ms:
            self.close(oldest.id)
            return True
        old = [
            session
            for session in self._sessions.values()
            if (is_follower and session.follower is None)
            or session.last_used_ms - session.created_ms > self._eviction_ms
        ]
        least = min(old, key=lambda session: (*session.worth, session.id), default=None)
        if least is None or (is_follower, size) <= least.worth:
            return False
        self.close(least.id)
        return True

    def go_on(
        self,
        session_id: int,
        epoch: int,
        wanted: dict[Key, Wanted],
        forgotten: Iterable[Key],
        uses_topic_ids: bool,
        now_ms: int,
    ) -> Session:
        """The next request of a session; SessionError where it is not that."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise SessionError(ErrorCode.invalid_fetch_session_epoch)
        if session.uses_topic_ids != uses_topic_ids:
            raise SessionError(ErrorCode.fetch_session_topic_id_error)
        gone = list(forgotten)
        for key in gone:
            session.wanted.pop(key, None)
            session.told.pop(key, None)
        if session.follower is not None:
            session.follower.forget(gone)
        for key, value in wanted.items():
            session.wanted[key] = value
        session.epoch = epoch + 1 if epoch < _MAX else 1
        session.last_used_ms = now_ms
        if not session.wanted:
            self.close(session.id)
        return session
