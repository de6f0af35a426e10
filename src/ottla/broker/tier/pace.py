"""Copying to the remote tier gives way to producers: a byte costs more to copy than to append, here and in the store.

While much is appended, or the loop is late, copies go on at a slow pace, all of them together. That is for bursts: once
`ottla.remote.copy.backlog.bytes` wait to be copied, they wait no longer, since the disk would fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Final

from ottla.broker.tier.backlog import still_to_copy
from ottla.env.breath import Breath, rest_in_thread
from ottla.env.loop_lag import LoopLag
from ottla.env.ports import Clock
from ottla.replica.partition import Partition

LOOK_S: Final = 0.05  # bursts of producers are short
_COUNT_AGAIN_S: Final = 0.25  # what waits, which is more work
FAST_BYTES_PER_S: Final = 64 * 1024 * 1024  # of producers: from here on copies give way to them
LATE_S: Final = 0.004
SLOW_BYTES_PER_S: Final = 8 * 1024 * 1024  # of copies that give way
_SLICE_S: Final = 0.05


class CopyPace:
    def __init__(
        self,
        clock: Clock,
        lag: LoopLag,
        appended: Callable[[], int],
        led: Callable[[], Iterable[Partition]],
        most_waiting: Callable[[], int],
        rest: Callable[[float], None] = rest_in_thread,
    ) -> None:
        """`appended` gives all bytes that producers have sent so far, `led` the partitions that use the tier."""
        self.gives_way = False
        self._clock = clock
        self._lag = lag
        self._led = led
        self._most_waiting = most_waiting
        self._rest = rest
        self._appended_bytes = appended
        self._appended = 0
        self._looked_at = clock.elapsed()
        self._waiting = 0
        self._counted_at = -_COUNT_AGAIN_S
        self._is_over = False
        self._lock = Lock()
        self._free_at = 0.0

    async def look(self) -> None:
        """To be called every `LOOK_S`."""
        now, appended = self._clock.elapsed(), self._appended_bytes()
        new, seconds = appended - self._appended, max(now - self._looked_at, LOOK_S / 2)
        self._appended, self._looked_at = appended, now
        is_busy = new / seconds >= FAST_BYTES_PER_S or self._lag.recent() >= LATE_S
        if is_busy and now - self._counted_at >= _COUNT_AGAIN_S:
            self._counted_at = now
            self._waiting = await self._count_waiting()
        self.gives_way = is_busy and self._waiting < self._most_waiting()

    async def _count_waiting(self) -> int:
        breath, waiting = Breath(self._clock), 0
        for partition in list(self._led()):
            if partition.log.config.copies_to_tier:
                waiting += sum([segment.size for segment, _ in still_to_copy(partition)])
            await breath.take()
        return waiting

    def before(self, size: int) -> None:
        """In the thread that copies: rests until it is the turn of so many bytes, or until nobody need be given way."""
        if not self._must_rest():
            return
        with self._lock:
            now = self._clock.elapsed()
            begins = max(self._free_at, now)
            self._free_at = begins + size / SLOW_BYTES_PER_S
        for _ in range(int((begins - now) / _SLICE_S) + 1):
            if not self._must_rest():
                return
            self._rest(_SLICE_S)

    def _must_rest(self) -> bool:
        return self.gives_way and not self._is_over

    def end(self) -> None:
        self._is_over = True
