"""One life of a simulated host: from its start to its crash.

Everything a host's code schedules carries the incarnation in its context variables, as asyncio copies the context for
each task and callback. The loop drops what belongs to a dead one, so a crash needs no help from the crashed code: it
simply never runs again, as after `kill -9`.
"""

import asyncio
from contextvars import Context, ContextVar, copy_context
from typing import Any
from weakref import WeakSet


class SimulatedCrash(BaseException):
    """The process has died at this point. Not an Exception: code that handles errors must not handle its own death."""


class Incarnation:
    __slots__ = ("alive", "held", "host", "number", "runs", "tasks")

    def __init__(self, host: str, number: int) -> None:
        self.host = host
        self.number = number
        self.alive = True
        self.runs = True
        """False too while it is paused: alive, and doing nothing."""
        self.held: list[asyncio.Handle] = []
        """What it would have done while it was paused, in order."""
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()

    def __repr__(self) -> str:
        return f"<{self.host}#{self.number} {'alive' if self.alive else 'dead'}>"

    def die(self) -> None:
        self.alive = self.runs = False

    def context(self) -> Context:
        """A context in which all that is started belongs to this incarnation."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return context


CURRENT: ContextVar[Incarnation | None] = ContextVar("ottla_sim_incarnation", default=None)
