"""For long work on the loop: lets others have their turn every few milliseconds."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from ottla.env.ports import Clock

_SECONDS: Final = 0.004


class Breath:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.elapsed() + _SECONDS

    async def take(self) -> None:
        """Goes on at once, unless the last breath was a while ago."""
        if self._clock.elapsed() >= self._due:
            await asyncio.sleep(0)
            self._due = self._clock.elapsed() + _SECONDS


def rest_in_thread(seconds: float) -> None:
    """For work in a thread that lets the loop go first."""
    time.sleep(seconds)
