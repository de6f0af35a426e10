"""The executor port on virtual time: jobs run on the loop, after a while.

A job does its work at one moment and its result is seen at a later one. A crash before the first means that it never
ran, between the two that it ran and nobody learnt of it: both happen to a real fsync.
"""

import asyncio
import pickle
from collections.abc import Callable
from functools import partial
from heapq import heappushpop
from random import Random
from typing import Any, ParamSpec, TypeVar

from ottla.env.ports import Disk, Workplace
from ottla.sim.incarnation import SimulatedCrash

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class SimWorkplace:
    """Work in a process of its own happens at one moment; what it tells is heard later, in the same order."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.told: list[bytes] = []
        self._elapsed = 0.0

    def tell(self, news: object) -> None:
        self.told.append(pickle.dumps(news))

    def retire(self) -> None:
        pass

    def come_last(self) -> None:
        pass

    def let_others(self) -> None:
        pass

    def rest(self, seconds: float) -> None:
        self._elapsed += seconds

    def elapsed(self) -> float:
        return self._elapsed


class SimExecutor:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        threads: int = 4,
        processes: int = 1,
        longest_s: float = 0.02,
        observe: Callable[[str, str], None] = lambda event, details: None,
        disk: Disk | None = None,
    ) -> None:
        self._disk = disk
        self._loop = loop
        self._random = random
        self.longest_s = longest_s
        """How long a job may take. Most take far less."""
        self._observe = observe
        # When each worker will be free: with all of them busy a job waits for the first.
        self._threads = [0.0] * threads
        self._processes = [0.0] * processes
        self._closed = False

    def blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self._submit("blocking", self._threads, _name(function), partial(function, *args, **kwargs))

    def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        sent = pickle.dumps((function, args, kwargs))  # fails here as it would on the way to a process
        return self._submit("compute", self._processes, _name(function), partial(_elsewhere, sent))

    def beside(
        self, work: Callable[[Workplace, A], T], order: A, heard: Callable[[Any], None]
    ) -> asyncio.Future[T]:  # fmt: skip
        if self._disk is None:
            raise RuntimeError("this executor was given no disk for work in processes")
        place = SimWorkplace(self._disk)
        sent = pickle.dumps((work, order))
        future = self._submit("beside", [0.0], _name(work), partial(_beside, place, sent))
        return _heard_before(self._loop, future, place, heard)

    def close(self) -> None:
        self._closed = True

    def _submit(self, kind: str, workers: list[float], name: str, job: Callable[[], T]) -> asyncio.Future[T]:
        if self._closed:
            raise RuntimeError(f"cannot run {name}: the executor has been closed")
        future: asyncio.Future[T] = self._loop.create_future()
        takes = self.longest_s * self._random.random() ** 3
        work_at = max(self._loop.time(), workers[0]) + takes * self._random.random()
        heappushpop(workers, work_at)
        seen_at = work_at + takes * self._random.random()
        self._loop.call_at(work_at, self._work, kind, name, job, future, seen_at)
        return future

    def _work(self, kind: str, name: str, job: Callable[[], T], future: asyncio.Future[T], seen_at: float) -> None:
        if future.cancelled():  # a thread that has not started yet is never started
            return
        try:
            result = job()
        except (Exception, SimulatedCrash) as error:
            self._observe(f"executor {kind}", f"{name} failed: {type(error).__name__}")
            self._loop.call_at(seen_at, _settle, future, partial(future.set_exception, error))
        else:
            self._observe(f"executor {kind}", name)
            self._loop.call_at(seen_at, _settle, future, partial(future.set_result, result))


def _settle(future: asyncio.Future[T], settle: Callable[[], None]) -> None:
    if not future.done():
        settle()


def _elsewhere(sent: bytes) -> Any:
    """What a job does to its arguments stays in its process, so it gets copies, and so does who waits for it."""
    function, args, kwargs = pickle.loads(sent)  # noqa: S301  (written a moment ago, by us)
    return pickle.loads(pickle.dumps(function(*args, **kwargs)))  # noqa: S301


def _beside(place: SimWorkplace, sent: bytes) -> Any:
    work, order = pickle.loads(sent)  # noqa: S301  (written a moment ago, by us)
    return pickle.loads(pickle.dumps(work(place, order)))  # noqa: S301


def _heard_before(
    loop: asyncio.AbstractEventLoop, work: asyncio.Future[T], place: SimWorkplace, heard: Callable[[Any], None]
) -> asyncio.Future[T]:
    """The news first, then the result; neither after the future was cancelled."""
    future: asyncio.Future[T] = loop.create_future()

    def done(ended: asyncio.Future[T]) -> None:
        if future.done() or ended.cancelled():
            future.cancel()
            return
        for news in place.told:
            heard(pickle.loads(news))  # noqa: S301
        error = ended.exception()
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(ended.result())

    work.add_done_callback(done)
    future.add_done_callback(lambda _: work.cancel())
    return future


def _name(function: Callable[..., object]) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__qualname__", type(function).__name__)
