"""Threads for calls that release the GIL, processes for Python that burns CPU."""

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ottla.env.ports import Workplace
from ottla.env.processes import Processes
from ottla.env.worker import die_with_parent

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class PoolExecutor:
    """All of them start with their first job, so that a node which needs none pays for none."""

    def __init__(self, *, threads: int = 4, processes: int = 1) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ottla-io")
        self._process_count = processes
        self._processes: ProcessPoolExecutor | None = None
        self._beside = Processes()

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
            self._process_count, multiprocessing.get_context("spawn"), initializer=die_with_parent
        )
        return loop.run_in_executor(self._processes, job)

    def beside(
        self, work: Callable[[Workplace, A], T], order: A, heard: Callable[[Any], None]
    ) -> asyncio.Future[T]:  # fmt: skip
        return self._beside.submit(work, order, heard)

    def close(self) -> None:
        self._beside.close()
        self._threads.shutdown(wait=True)
        if self._processes is not None:
            self._processes.shutdown(wait=True, cancel_futures=True)
