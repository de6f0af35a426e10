"""The one timer wheel of a node: every long poll, delayed ack and expiry waits here.

asyncio's own `call_later` keeps a heap of handles that cancelling does not shrink. Nearly all waits of a broker are
cancelled before they end, so here a wait is one entry of a dictionary: adding and cancelling cost the same whether ten
wait or a hundred thousand. The price is precision: a callback runs up to a tick late, never early.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil
from typing import Any, TypeVarTuple, Unpack

Ts = TypeVarTuple("Ts")


class Timer:
    """One wait. `cancel` may be called at any time, any number of times."""

    __slots__ = ("_args", "_bucket", "_callback", "_wheel")

    def __init__(
        self,
        wheel: "TimerWheel",
        bucket: dict["Timer", None],
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        self._wheel = wheel
        self._bucket: dict[Timer, None] | None = bucket
        self._callback: Callable[..., object] | None = callback
        self._args = args

    @property
    def waiting(self) -> bool:
        return self._bucket is not None

    def cancel(self) -> None:
        bucket = self._bucket
        if bucket is not None:
            del bucket[self]
            self._forget()
            self._wheel._one_less()

    def _forget(self) -> tuple[Callable[..., object] | None, tuple[Any, ...]]:
        """What it was to call. A caller may hold a timer for long; the request behind it must not live as long."""
        callback, args = self._callback, self._args
        self._bucket = self._callback = None
        self._args = ()
        return callback, args


class TimerWheel:
    """Callbacks after a delay, in buckets of one tick; the event loop holds one timer for all of them, or none."""

    __slots__ = ("_armed", "_armed_tick", "_buckets", "_count", "_fired", "_loop", "_tick_s", "_ticks")

    def __init__(self, loop: asyncio.AbstractEventLoop, tick_ms: int = 5) -> None:
        self._loop = loop
        self._tick_s = tick_ms / 1000
        self._buckets: dict[int, dict[Timer, None]] = {}
        # The ticks that have a bucket. A bucket whose timers were all cancelled stays until its tick, so that a tick is
        # in the heap at most once.
        self._ticks: list[int] = []
        self._count = 0
        self._fired = -1
        self._armed: asyncio.TimerHandle | None = None
        self._armed_tick = 0

    def __len__(self) -> int:
        return self._count

    def after(self, delay_ms: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> Timer:
        """Calls back once, `delay_ms` from now or up to a tick later; never from within this call."""
        tick = ceil((self._loop.time() + delay_ms / 1000) / self._tick_s)
        if tick <= self._fired:  # added by a callback of this very tick
            tick = self._fired + 1
        bucket = self._buckets.get(tick)
        if bucket is None:
            bucket = self._buckets[tick] = {}
            heappush(self._ticks, tick)
        timer = Timer(self, bucket, callback, args)
        bucket[timer] = None
        self._count += 1
        if self._armed is None or tick < self._armed_tick:
            self._arm(tick)
        return timer

    def close(self) -> None:
        """Cancels everything that waits."""
        for bucket in self._buckets.values():
            for timer in bucket:
                timer._forget()
        self._count = 0
        self._clear()

    def _arm(self, tick: int) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_tick = tick
        self._armed = self._loop.call_at(tick * self._tick_s, self._turn)

    def _turn(self) -> None:
        self._armed = None
        now = self._loop.time()
        # asyncio fires within its clock's resolution, uvloop to the millisecond: what is not due yet is armed again.
        while self._ticks and self._ticks[0] * self._tick_s <= now:
            self._fired = heappop(self._ticks)
            bucket = self._buckets[self._fired]  # stays in its place meanwhile, so that `close` finds it
            for timer in list(bucket):
                if timer._bucket is not None:
                    del bucket[timer]
                    self._run(timer)
            self._buckets.pop(self._fired, None)
        self._arm_next()

    def _arm_next(self) -> None:
        ticks = self._ticks
        while ticks and not self._buckets[ticks[0]]:
            del self._buckets[heappop(ticks)]
        if ticks and (self._armed is None or ticks[0] < self._armed_tick):
            self._arm(ticks[0])

    def _run(self, timer: Timer) -> None:
        callback, args = timer._forget()
        self._count -= 1
        assert callback is not None
        try:
            callback(*args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            message = f"a timer's callback failed: {callback!r}"
            self._loop.call_exception_handler({"message": message, "exception": error})

    def _one_less(self) -> None:
        self._count -= 1
        if self._count == 0:
            self._clear()

    def _clear(self) -> None:
        self._buckets.clear()
        self._ticks.clear()
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
