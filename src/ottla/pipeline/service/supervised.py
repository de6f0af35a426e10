"""When a deployed pipeline is to be started: no I/O, so that it can be looked at in tests.

It is started when it comes, and again after it has ended, each time later, up to five minutes; after ten minutes
without an end the next one counts as the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 2.0
LONGEST_S: Final = 300.0
QUIET_S: Final = 600.0


@dataclass(slots=True)
class Supervised:
    start_at: float
    """When it should run, by the clock of whoever asks."""
    began: float | None = None
    """Since when it runs; None if it does not."""
    restarts: int = 0
    failures: int = 0
    """In a row."""

    def should_start(self, now: float) -> bool:
        return self.began is None and now >= self.start_at

    def has_started(self, now: float) -> None:
        self.began = now

    def has_ended(self, now: float) -> float:
        """How long to wait before it is started again."""
        assert self.began is not None
        if now - self.began >= QUIET_S:
            self.failures = 0
        wait = min(FIRST_S * float(2**self.failures), LONGEST_S)
        self.failures += 1
        self.restarts += 1
        self.began = None
        self.start_at = now + wait
        return wait

    def is_new_now(self, now: float) -> None:
        """Its spec has changed: nothing of before counts."""
        self.start_at, self.failures = now, 0
