"""Bounds the time that one turn of the event loop spends on requests.

libuv reads a socket up to 32 times in a row while it is full, and polls many sockets at once: without a bound, a flood
of small requests would keep timers and other connections waiting for a tenth of a second and more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.env.ports import Clock

_log = logging.getLogger("ottla.wire")

TURN_SECONDS: Final = 0.004
PATIENCE_SECONDS: Final = 0.002  # of those who give way
_MOST_BEHIND: Final = 32  # who give way at once: what they have read is kept meanwhile
_LOOK_AT_CLOCK: Final = 8  # readings


class Turn:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: float | None = None
        self._readings = 0
        self._is_spent = False
        self._postponed: deque[Callable[[], None]] = deque()
        self._behind: deque[tuple[float, Callable[[], None]]] = deque()
        self.due: list[Callable[[], None]] = []
        self.is_handling = False  # of requests that have just come in
        self.is_running_due = False

    def afterwards(self, callback: Callable[[], None]) -> None:
        """After the requests that are being handled, and before they are answered: others wait for what they did."""
        if self.is_handling:
            self.due.append(callback)
        else:
            asyncio.get_running_loop().call_soon(callback)

    def run_due(self) -> None:
        """Whoever is answered here goes on with his next request later: it may be what another one waits for."""
        due, self.due = self.due, []
        self.is_running_due = True
        try:
            for callback in due:
                try:
                    callback()
                except Exception:
                    _log.exception("a request that waited failed")
        finally:
            self.is_running_due = False

    def give_way(self, go_on: Callable[[], None]) -> bool:
        """For what may come after others: in each turn one of those who wait has its time, or all whose patience ends.

        False if there are too many already.
        """
        if len(self._behind) >= _MOST_BEHIND:
            return False
        if not self._behind:
            asyncio.get_running_loop().call_soon(self._run_behind)
        self._behind.append((self._clock.elapsed() + PATIENCE_SECONDS, go_on))
        return True

    def _run_behind(self) -> None:
        now = self._clock.elapsed()
        turns = [self._behind.popleft()[1]]
        while self._behind and self._behind[0][0] <= now:
            turns.append(self._behind.popleft()[1])
        if self._behind:
            asyncio.get_running_loop().call_soon(self._run_behind)
        for go_on in turns:
            go_on()

    def is_over(self) -> bool:
        now = self._clock.elapsed()
        if self._ends is None:
            self._ends = now + TURN_SECONDS
            asyncio.get_running_loop().call_soon(self._next)
            return False
        return now >= self._ends

    def is_spent(self) -> bool:
        """For each connection that has something to read: whether there is still time for it in this turn."""
        self._readings += 1
        if not self._is_spent and self._readings % _LOOK_AT_CLOCK == 0:
            self._is_spent = self.is_over()
        return self._is_spent

    def postpone(self, go_on: Callable[[], None]) -> None:
        """To the next turn, or one after that, in the order of asking."""
        self._postponed.append(go_on)
        self.is_over()  # so that there is a next one

    def _next(self) -> None:
        self._ends = None
        self._is_spent = False
        for _ in range(len(self._postponed)):
            if self.is_over():
                break  # `is_over` has arranged for the next turn
            self._postponed.popleft()()
