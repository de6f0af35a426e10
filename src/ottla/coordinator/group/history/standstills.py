"""When this node itself stood still: starved of CPU, stopped, or suspended with its machine.

What members said meanwhile waited in their connections, and their sessions went on running out. Such a silence is not
theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

_KEPT: Final = 512


class Standstills:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._all: deque[tuple[int, int]] = deque(maxlen=_KEPT)  # from when to when, one after the other

    def note(self, lasted_ms: int) -> None:
        """One that has just ended."""
        now_ms = self._now_ms()
        self._all.append((now_ms - lasted_ms, now_ms))

    def between(self, began: int, ended: int) -> int:
        """How many of the milliseconds between two moments."""
        return sum(self._within(began, ended))

    def longest(self, began: int, ended: int) -> int:
        """Between two short ones a node listens, and hears what has waited: only a long one is an excuse."""
        return max(self._within(began, ended), default=0)

    def _within(self, began: int, ended: int) -> Iterator[int]:
        for start, end in reversed(self._all):
            if end <= began:
                break
            yield max(min(end, ended) - max(start, began), 0)
