"""Requests that wait for something to happen: keyed watchers, and one timer wheel for all who give up.

A request enters with the keys it cares about and a time-out. When something happens to a key, all who watch it are
touched; one that has seen enough leaves by itself. A closed connection or a lost leadership makes it leave too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol

from ottla.env.timers import Timer, TimerWheel


class WaitingRequest(Protocol):
    def touched(self, key: Hashable) -> None:
        """Something happened to a key that it watches. Called in the middle of other work: do little here."""

    def expired(self) -> None:
        """Its time is up, and it has left."""


class _Stay:
    __slots__ = ("keys", "timer")

    def __init__(self, keys: tuple[Hashable, ...]) -> None:
        self.keys = keys
        self.timer: Timer | None = None


class WaitingRoom:
    def __init__(self, timers: TimerWheel) -> None:
        self.watched: dict[Hashable, dict[WaitingRequest, None]] = {}
        self._timers = timers
        self._stays: dict[WaitingRequest, _Stay] = {}

    def __len__(self) -> int:
        return len(self._stays)

    def enter(self, request: WaitingRequest, keys: Iterable[Hashable], timeout_ms: float) -> None:
        stay = self._stays[request] = _Stay(tuple(keys))
        for key in stay.keys:
            self.watched.setdefault(key, {})[request] = None
        stay.timer = self._timers.after(timeout_ms, self._expire, request)

    def leave(self, request: WaitingRequest) -> bool:
        """False if it was not there (any more)."""
        stay = self._stays.pop(request, None)
        if stay is None:
            return False
        for key in stay.keys:
            watchers = self.watched.get(key)
            if watchers is not None:
                watchers.pop(request, None)
                if not watchers:
                    del self.watched[key]
        if stay.timer is not None:
            stay.timer.cancel()
        return True

    def touch(self, key: Hashable) -> None:
        watchers = self.watched.get(key)
        if watchers:
            for request in tuple(watchers):
                request.touched(key)

    def _expire(self, request: WaitingRequest) -> None:
        if self.leave(request):
            request.expired()
