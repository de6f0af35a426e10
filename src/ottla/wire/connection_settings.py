"""What all connections of a node share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.env.ports import Env
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_limits import ConnectionLimits
from ottla.wire.reply import Later, Message
from ottla.wire.turn import Turn

if TYPE_CHECKING:
    from ottla.wire.server import ServerConnection

SCRATCH_BYTES: Final = 64 * 1024

Handler = Callable[["ServerConnection", memoryview], Message | Later]


class ConnectionSettings:
    def __init__(self, handler: Handler, env: Env, pool: BufferPool, max_request_bytes: int) -> None:
        self.handler = handler
        self.executor = env.executor
        self.turn = Turn(env.clock)
        self.pool = pool
        self.max_request_bytes = max_request_bytes
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self.connections: dict[ServerConnection, None] = {}
        self.on_lost: list[Callable[[ServerConnection], None]] = []
        self.opened: dict[str, int] = {}  # connections that were accepted, by listener
        self.closed_idle = 0
        self.limits = ConnectionLimits(env.clock.elapsed)
        self.limits.on_excess = self._make_room
        self.on_lost.append(lambda connection: self.limits.gone(connection.listener, connection.host))
        self.draining = False

    async def drain(self, seconds: float) -> None:
        """No more requests; until those that had their effects are answered, or the time is over."""
        self.draining = True
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while any(connection.owes_answers for connection in self.connections) and loop.time() < ends:
            await asyncio.sleep(0.01)

    def close_stalled(self, now: float) -> None:
        """When memory is short, whoever does not go on with a request, or does not read, must not keep his part."""
        if self.pool.is_short:
            for connection in list(self.connections):
                connection.close_if_stalled(now)

    def close_idle(self, now: float, seconds: float) -> None:
        """Looks at all once in a while, which costs less than a timer each: some are closed a little late."""
        for connection in list(self.connections):
            if connection.idle_for(now) >= seconds:
                self.closed_idle += 1
                connection.give_up()

    def _make_room(self) -> None:
        """Closes those that have been idle longest, until there are no more than there may be."""
        now = asyncio.get_running_loop().time()
        there = [one for one in self.connections if not one.is_closing]
        too_many = self.limits.excess - (len(self.connections) - len(there))
        candidates = [one for one in there if not self.limits.is_protected(one.listener)]
        candidates.sort(key=lambda one: (one.awaits_answers, -one.idle_for(now)))
        for connection in candidates[: max(too_many, 0)]:
            connection.give_up()
