"""Threads for calls that release the GIL, processes for Python that burns CPU."""

import asyncio
import ctypes
import multiprocessing
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """A node that was killed cannot stop its workers: Linux does, if it is asked to."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class PoolExecutor:
    """Both pools start with their first job, so that a node which needs none pays for none."""

    def __init__(self, *, threads: int = 4, processes: int = 1) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ottla-io")
        self._process_count = processes
        self._processes: ProcessPoolExecutor | None = None

    def blocking(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args, **kwargs))

    def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        loop, job = asyncio.get_running_loop(), partial(function, *args, **kwargs)
        if self._processes is not None:
            try:
                return loop.run_in_executor(self._processes, job)
            except BrokenProcessPool:  # a worker was killed, perhaps for its memory; the job that killed it has failed
                self._processes.shutdown(wait=False)
        # spawn: a fork would carry over the loop, its sockets and whatever lock a thread holds
        self._processes = ProcessPoolExecutor(
            self._process_count, multiprocessing.get_context("spawn"), initializer=_die_with_parent
        )
        return loop.run_in_executor(self._processes, job)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        if self._processes is not None:
            self._processes.shutdown(wait=True, cancel_futures=True)
