"""How tests wait: for what must happen, and patiently, since a machine may be slow and its neighbours loud."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 60.0
"""Nobody waits that long: what is awaited comes at once, or never."""


def until(holds: Callable[[], T], else_say: object = None, *, within_s: float = PATIENCE_S) -> T:
    """Asks until the answer is true, and gives it. What to say if it never is may be a function."""
    deadline = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline, _complaint(found, else_say, within_s)
        time.sleep(0.01)
    return found


async def until_on_loop(holds: Callable[[], T], else_say: object = None, *, within_s: float = PATIENCE_S) -> T:
    """The same for a coroutine; on virtual time if its loop has one."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while not (found := holds()):
        assert clock() < deadline, _complaint(found, else_say, within_s)
        await asyncio.sleep(0.01)
    return found


def _complaint(found: object, else_say: object, within_s: float) -> str:
    said = else_say() if callable(else_say) else else_say
    return f"not within {within_s:g} s: {found!r}" if said is None else f"not within {within_s:g} s: {said}"
