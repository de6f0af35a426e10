"""An asyncio event loop on virtual time.

Nothing in it waits: when no callback is ready the clock jumps to the next timer. Callbacks run first in, first out, and
timers of one moment in the order in which they were made, so a run depends on nothing but the code and its seeds.
There are no threads, signals, sockets or subprocesses: asking for one is an error that says what to use instead.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Never, TypeVar, TypeVarTuple, Unpack

from ottla.sim.incarnation import CURRENT, Incarnation, SimulatedCrash

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SPINS = 1_000_000  # callbacks without time passing: more than any burst of real work, soon enough to fail a test
_COLLECT_EVERY = 400_000  # steps: a run of a minute has about 100,000, and all that it leaves is a few hundred MB
_SWEEP_AT = 256


class Deadlock(RuntimeError):
    """Nothing will ever happen again, yet someone waits."""


class Livelock(RuntimeError):
    """Callbacks keep running and time stands still."""


class TimeLimit(RuntimeError):
    """The run has taken longer, by its own clock, than it was allowed to."""


class _Handle(asyncio.Handle):
    """As asyncio's, made in half the time: there are a hundred thousand in a minute."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True  # else a cancelled handle does not tell us


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._queue: deque[tuple[asyncio.Handle, Incarnation | None]] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Incarnation | None]] = []
        self._made = 0
        self._cancelled_timers = 0
        self._spins = 0
        self.time_limit = inf
        self.steps = 0
        """Callbacks run so far."""
        self.running_for: Incarnation | None = None
        """Whose callback is being run."""
        self.buried: list[object] = []
        """What dead hosts left behind. Kept until the end: collecting a suspended coroutine runs its `finally`."""
        self._collecting = True
        self._collect_at = _COLLECT_EVERY

    # Time and order

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        context = copy_context() if context is None else context
        handle = _Handle(callback, args, self, context)
        if not self._closed:  # type: ignore[attr-defined]
            self._queue.append((handle, context.get(CURRENT)))
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        handle = _TimerHandle(when, callback, args, self, context)
        if not self._closed:  # type: ignore[attr-defined]
            self._made += 1
            heappush(self._timers, (when, self._made, handle, context.get(CURRENT)))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > _SWEEP_AT and self._cancelled_timers * 2 > len(self._timers):
            # ties are broken by the number of a timer, so another shape of the heap is the same order
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapify(self._timers)
            self._cancelled_timers = 0

    def resume(self, owner: Incarnation) -> None:
        """What a paused host would have done by now, it does at once."""
        owner.runs = owner.alive
        self._queue.extend((handle, owner) for handle in owner.held)
        owner.held.clear()

    def create_task(self, coro: Coroutine[Any, Any, T], **options: Any) -> asyncio.Task[T]:  # type: ignore[override]
        task = super().create_task(coro, **options)
        context: Context | None = options.get("context")
        owner = CURRENT.get() if context is None else context.get(CURRENT)
        if owner is not None:
            owner.tasks.add(task)
        return task

    def _run_once(self) -> None:
        """Overrides asyncio's: one turn is all that is ready now, or a jump to the next timer and what is due then."""
        if not self._queue and not self._stopping:  # type: ignore[attr-defined]
            self._jump()
        queue, ran = self._queue, 0
        for _ in range(len(queue)):
            handle, owner = queue.popleft()
            if owner is not None and not owner.runs:
                (owner.held if owner.alive else self.buried).append(handle)
            elif not handle._cancelled:
                ran += 1
                self.running_for = owner
                try:
                    handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.call_exception_handler({"message": f"Exception in {handle}", "exception": error})
        self.running_for = None
        self.steps += ran
        self._spins += ran
        if self._spins > _SPINS:
            raise Livelock(
                f"{_SPINS:,} callbacks ran and the time is still {self._now:.6f} s: who loops?\n{self._who()}"
            )
        if self._collecting and self.steps >= self._collect_at:
            self._collect_at = self.steps + _COLLECT_EVERY
            gc.collect()

    def _jump(self) -> None:
        timers = self._timers
        while timers and (timers[0][2]._cancelled or self._is_void(timers[0])):
            self._drop_first()
        if not timers:
            raise Deadlock(f"nothing is ready or scheduled at {self._now:.6f} s, but these still wait:\n{self._who()}")
        if timers[0][0] > self.time_limit:
            raise TimeLimit(f"{self.time_limit:.3f} s of virtual time are over, and these still wait:\n{self._who()}")
        if timers[0][0] > self._now:
            self._now = timers[0][0]
            self._spins = 0
        while timers and timers[0][0] <= self._now:
            _, _, handle, owner = heappop(timers)
            handle._scheduled = False  # type: ignore[attr-defined]
            if handle._cancelled:
                self._cancelled_timers -= 1
            else:
                self._queue.append((handle, owner))

    def _is_void(self, entry: tuple[float, int, asyncio.TimerHandle, Incarnation | None]) -> bool:
        return entry[2].cancelled() or (entry[3] is not None and not entry[3].alive)

    def _drop_first(self) -> None:
        handle = heappop(self._timers)[2]
        handle._scheduled = False  # type: ignore[attr-defined]
        if handle.cancelled():
            self._cancelled_timers -= 1
        else:
            self.buried.append(handle)

    def _who(self) -> str:
        tasks = [task for task in asyncio.all_tasks(self) if task not in self.buried]
        waiting = sorted(f"  {task.get_name()}: {_where(task)}" for task in tasks)
        return "\n".join(waiting) or "  (no task)"

    # Running

    def run_forever(self) -> None:
        """As asyncio's, with garbage collected at fixed steps: finalisers must not run at another time each run."""
        was_enabled = gc.isenabled()
        gc.disable()
        self._collecting = was_enabled
        try:
            super().run_forever()
        finally:
            if was_enabled:
                gc.enable()

    def close(self) -> None:
        """Forgets everything. What coroutines start while they are being closed is closed with them."""
        if self.is_closed():
            return
        buried: list[asyncio.Task[Any]] = []
        # Another one may be running: a loop that nobody has closed is closed whenever garbage is collected.
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(self)  # as for any other step: they may ask for the loop
        try:
            while tasks := [task for task in asyncio.all_tasks(self) if not task.done() and task not in buried]:
                for task in tasks:
                    bury(task)
                buried += tasks
        finally:
            asyncio._set_running_loop(running)
        super().close()
        self._queue.clear()
        self._timers.clear()
        self.buried.clear()

    # What does not exist here

    def _process_events(self, event_list: object) -> None:
        raise NotImplementedError

    def call_soon_threadsafe(self, *_: object, **__: object) -> Never:
        raise _not_here("call_soon_threadsafe", "there is one thread: call_soon")

    def run_in_executor(self, *_: object, **__: object) -> Never:
        raise _not_here("run_in_executor", "Env.executor.blocking or .compute")

    async def getaddrinfo(self, *_: object, **__: object) -> Never:
        raise _not_here("getaddrinfo", "Env.network, which knows hosts by name")

    async def create_connection(self, *_: object, **__: object) -> Never:
        raise _not_here("create_connection", "Env.network.connect")

    async def create_server(self, *_: object, **__: object) -> Never:
        raise _not_here("create_server", "Env.network.listen")

    async def subprocess_exec(self, *_: object, **__: object) -> Never:
        raise _not_here("subprocess_exec", "Env.executor.compute")

    async def subprocess_shell(self, *_: object, **__: object) -> Never:
        raise _not_here("subprocess_shell", "Env.executor.compute")


def bury(task: asyncio.Task[Any]) -> None:
    """Ends a task that will never run again, without asyncio's complaint that it was pending."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    try:
        if coroutine is not None:
            coroutine.close()
    except (Exception, asyncio.CancelledError, SimulatedCrash):
        pass  # its `finally` blocks find a world that no longer answers


def _where(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack()
    if not frames:
        return "not started"
    frame = frames[-1]
    return f"{frame.f_code.co_qualname} at {frame.f_code.co_filename}:{frame.f_lineno}"


def _not_here(what: str, instead: str) -> RuntimeError:
    return RuntimeError(f"a simulated loop has no {what}, as its result would differ from run to run; use {instead}")
