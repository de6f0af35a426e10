"""How late the event loop runs what it was asked to run: the one number that tells whether something blocked it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, NamedTuple

from ottla.env.ports import Clock

_INTERVAL_S: Final = 0.01
_KEPT: Final = 100_000


class LagSummary(NamedTuple):
    samples: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class LoopLag:
    """Asks to be called every few milliseconds and notes by how much each call came late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._late: deque[float] = deque(maxlen=_KEPT)
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + _INTERVAL_S
        self._handle = loop.call_at(self._due, self._called)

    def _called(self) -> None:
        self._late.append(max(self._clock.elapsed() - self._due, 0.0))
        self.start()

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def take(self) -> LagSummary:
        """What was seen since the last call."""
        late = sorted(self._late)
        self._late.clear()
        if not late:
            return LagSummary(0, 0.0, 0.0, 0.0, 0.0)

        def at(share: float) -> float:
            return round(late[min(int(len(late) * share), len(late) - 1)] * 1000, 3)

        return LagSummary(len(late), at(0.5), at(0.99), at(0.999), at(1.0))
