"""How late the event loop runs what it was asked to run: the one number that tells whether something blocked it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from ottla.env.metrics import Family, Gathered, Kind, Times
from ottla.env.ports import Clock

_INTERVAL_S: Final = 0.025  # each look costs 100 us: more of them would be most of what an idle node does
_KEPT: Final = 100_000
_RECENT: Final = 10  # a quarter of a second
LAG: Final = Family(
    "ottla_loop_lag_seconds", Kind.HISTOGRAM, "By how much the event loop was late, looked at every 25 ms."
)

IDLE: Final = Family(
    "kafka_network_socketserver_networkprocessoravgidle_percent", Kind.GAUGE,
    "The share of time, from 0 to 1, in which the event loop had nothing to do; since the last look.",
)  # fmt: skip
HANDLERS_IDLE: Final = Family(
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", Kind.GAUGE,
    "The same: requests are handled by the loop that reads them.",
)  # fmt: skip
_LOOK_AGAIN_S: Final = 1.0
STANDSTILL_S: Final = 0.2
"""From here on others are told: whoever waited for this node waited in vain."""


class LagSummary(NamedTuple):
    samples: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class LoopLag:
    """Asks to be called every few milliseconds and notes by how much each call came late."""

    def __init__(self, clock: Clock) -> None:
        self.on_standstill: list[Callable[[float], None]] = []  # told for how long, in seconds
        self._clock = clock
        self._late: deque[float] = deque(maxlen=_KEPT)
        self._times = Times()
        self._idle = 1.0
        self._looked_at: tuple[float, float] | None = None  # time and CPU time of the loop's thread
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + _INTERVAL_S
        self._handle = loop.call_at(self._due, self._called)

    def _called(self) -> None:
        late = max(self._clock.elapsed() - self._due, 0.0)
        self._late.append(late)
        self._times.note(late)
        if late >= STANDSTILL_S:
            for listener in self.on_standstill:
                listener(late)
        self.start()

    def recent(self) -> float:
        """By how much it was late of late, on average."""
        looks = list(islice(reversed(self._late), _RECENT))
        return sum(looks) / len(looks) if looks else 0.0

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def collect(self) -> Iterator[Gathered]:
        yield Gathered(LAG, self._times.histogram())
        idle = self._look_idle()
        yield Gathered(IDLE, [("", idle)])
        yield Gathered(HANDLERS_IDLE, [("", idle)])

    def _look_idle(self) -> float:
        now, busy = self._clock.elapsed(), time.thread_time()
        if self._looked_at is None:
            self._looked_at = now, busy
        elif (passed := now - self._looked_at[0]) >= _LOOK_AGAIN_S:
            self._idle = min(max(1 - (busy - self._looked_at[1]) / passed, 0.0), 1.0)
            self._looked_at = now, busy
        return self._idle

    def take(self) -> LagSummary:
        """What was seen since the last call."""
        late = sorted(self._late)
        self._late.clear()
        if not late:
            return LagSummary(0, 0.0, 0.0, 0.0, 0.0)

        def at(share: float) -> float:
            return round(late[min(int(len(late) * share), len(late) - 1)] * 1000, 3)

        return LagSummary(len(late), at(0.5), at(0.99), at(0.999), at(1.0))
