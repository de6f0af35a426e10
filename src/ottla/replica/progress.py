"""A value that only grows, and those who wait for it to reach a point: log end, flushed offset, high watermark."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Waiter:
    """One wait; `cancel` makes its callback silent."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Progress:
    __slots__ = ("_order", "_waiting", "value")

    def __init__(self, value: int) -> None:
        self.value = value
        self._waiting: list[tuple[int, int, Waiter]] = []
        self._order = count()  # those who wait for the same value are called in the order in which they came

    def when(self, value: int, callback: Callable[[], None]) -> Waiter:
        """Calls back once the value is reached; at once if it is already."""
        waiter = Waiter(callback)
        if self.value >= value:
            callback()
        else:
            heappush(self._waiting, (value, next(self._order), waiter))
        return waiter

    def release(self) -> None:
        """Calls all who wait, although the value was not reached: there is no use in waiting any more."""
        waiting, self._waiting = sorted(self._waiting, key=lambda entry: entry[:2]), []
        for _, _, waiter in waiting:
            if waiter.callback is not None:
                waiter.callback()

    def advance(self, value: int) -> None:
        if value <= self.value:
            return
        self.value = value
        waiting = self._waiting
        while waiting and waiting[0][0] <= value:
            callback = heappop(waiting)[2].callback
            if callback is not None:
                callback()
