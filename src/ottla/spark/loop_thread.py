"""An event loop in a thread of its own, for Spark's Python processes, which call and wait.

One for each process: connections that are open on it outlive a task, and serve the next one that Spark gives to the
same process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ottla.env.event_loop import new_event_loop

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner = 0


def loop() -> asyncio.AbstractEventLoop:
    """Started when it is needed first; a process that was forked from one that has a loop starts another."""
    global _loop, _owner
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop, _owner = new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="ottla client", daemon=True).start()
        return _loop


def start(work: Coroutine[Any, Any, T]) -> Future[T]:
    return asyncio.run_coroutine_threadsafe(work, loop())


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What is waited for must have a time limit of its own."""
    future = start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
