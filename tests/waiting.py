"""How tests wait: for what must happen, and patiently, since a machine may be slow and its neighbours loud."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0
"""Nobody waits that long: what is awaited comes at once, or never."""
NEVER_MS = 600_000
"""So far away that no test sees it: for what must not happen by itself."""
UNTENDED = {"log_initial_task_delay_ms": 86_400_000, "log_retention_check_interval_ms": 86_400_000}
"""For nodes that live for more than half a minute and have records of long ago, which they would delete then."""


def attempts(what: object = None, *, within_s: float = PATIENCE_S, pause_s: float = 0.01) -> Iterator[int]:
    """For a loop that is left when all is well; it fails the test when it was not for too long."""
    deadline, number = time.monotonic() + within_s, 0
    while True:
        yield number
        assert time.monotonic() < deadline, _complaint(what, within_s)
        number += 1
        time.sleep(pause_s)


def until(holds: Callable[[], T], what: object = None, *, within_s: float = PATIENCE_S) -> T:
    """Asks until the answer is true, and gives it. What to say if it never is may be a function."""
    found: T
    for _ in attempts(what if what is not None else lambda: f"{found!r}", within_s=within_s):
        if found := holds():
            break
    return found


def at_best(measure: Callable[[], float], below: float, times: int = 8) -> float:
    """The least of several measurements, the first that is good enough: neighbours disturb some, a defect all."""
    least = measure()
    for _ in range(times - 1):
        if least < below:
            break
        least = min(least, measure())
    return least


async def until_on_loop(holds: Callable[[], T], what: object = None, *, within_s: float = PATIENCE_S) -> T:
    """The same for a coroutine; on virtual time if its loop has one."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while not (found := holds()):
        assert clock() < deadline, _complaint(found if what is None else what, within_s)
        await asyncio.sleep(0.01)
    return found


def _complaint(what: object, within_s: float) -> str:
    return f"not within {within_s:g} s: {what() if callable(what) else what}"
