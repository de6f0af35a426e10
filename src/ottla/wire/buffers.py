"""Receive buffers for requests that do not fit into one read: lent and given back, in all within a budget."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from mmap import mmap
from typing import Final

Lent = bytearray | mmap
_SMALLEST: Final = 64 * 1024
_AMPLE: Final = 8  # as long as less than an eighth is used
_KEPT_BYTES: Final = 8 * 1024 * 1024  # given back, and held ready for the next request


class BufferPool:
    """Buffers come in powers of two, so that those given back fit again.

    A request is never refused for its size as long as it is alone: with no other under way, any size is lent.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.lent = 0
        self._working = 0  # buffers lent and requests that hold more: they come to an end, unread answers may not
        self._free: dict[int, list[bytearray]] = {}
        self._kept = 0
        self._waiting: deque[tuple[int, Callable[[Lent], None]]] = deque()

    @property
    def is_short(self) -> bool:
        return bool(self._waiting)

    @property
    def is_ample(self) -> bool:
        """Whether there is so much left that it need not be saved."""
        return self.lent * _AMPLE <= self.budget

    def take(self, size: int) -> Lent | None:
        """A buffer of at least that size; None if the budget is used up or others wait, then `wait`."""
        size = _rounded(size)
        return None if self._waiting or not self._fits(size) else self._lend(size)

    def wait(self, size: int, ready: Callable[[Lent], None]) -> None:
        """Hands a buffer over, in the order of asking, when there is room for it."""
        self._waiting.append((_rounded(size), ready))

    def stop_waiting(self, ready: Callable[[Lent], None]) -> None:
        self._waiting = deque(waiting for waiting in self._waiting if waiting[1] != ready)
        self._serve_waiting()

    def give_back(self, buffer: Lent) -> None:
        size = len(buffer)
        self.lent -= size
        self._working -= 1
        if isinstance(buffer, bytearray) and self._kept + size <= _KEPT_BYTES:
            self._kept += size
            self._free.setdefault(size, []).append(buffer)
        self._serve_waiting()

    def hold(self, size: int) -> None:
        """Counts what a request keeps in memory beyond its own buffer, until `let_go`."""
        self.lent += size
        self._working += 1

    def let_go(self, size: int) -> None:
        self.lent -= size
        self._working -= 1
        self._serve_waiting()

    def count_unread(self, before: int, now: int) -> None:
        """Of answers that a client does not take: how much of them there was, and is."""
        self.lent += now - before
        if now < before:
            self._serve_waiting()

    def _fits(self, size: int) -> bool:
        return not self._working or self.lent + size <= self.budget

    def _lend(self, size: int) -> Lent:
        self.lent += size
        self._working += 1
        free = self._free.get(size)
        if free:
            self._kept -= size
            return free.pop()
        # Memory of a large one is taken as it is filled, and given to the system again: a client that announces
        # 100 MB and does not send them costs nothing.
        return bytearray(size) if size <= _KEPT_BYTES else mmap(-1, size)

    def _serve_waiting(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, ready = self._waiting.popleft()
            ready(self._lend(size))


def _rounded(size: int) -> int:
    return max(_SMALLEST, 1 << (size - 1).bit_length())
