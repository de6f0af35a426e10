"""Chance that repeats: the same numbers on every machine and in every Python, for a corpus is only as good as its seed.

Python promises that for `random.random()` alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar
from zlib import crc32

T = TypeVar("T")
_MASK: Final = (1 << 64) - 1


class Dice:
    """splitmix64."""

    def __init__(self, seed: str) -> None:
        self._state = crc32(seed.encode()) << 32 | len(seed)

    def below(self, limit: int) -> int:
        """A number from 0 up to the limit, which is not among them."""
        self._state = state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return (state ^ (state >> 31)) % limit

    def choose(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def bytes(self, count: int) -> bytes:
        return bytes(self.below(256) for _ in range(count))
