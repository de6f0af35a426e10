"""What all connections of a node share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.env.ports import Env
from ottla.wire.buffers import BufferPool
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
        self.opened: dict[str, int] = {}  # connections that were accepted, by listener
        self.on_lost: list[Callable[[ServerConnection], None]] = []
        self.draining = False

    async def drain(self, seconds: float) -> None:
        """No more requests; until those that had their effects are answered, or the time is over."""
        self.draining = True
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while any(connection.owes_answers for connection in self.connections) and loop.time() < ends:
            await asyncio.sleep(0.01)

    def close_stalled(self, now: float) -> None:
        """When buffers are short, a client that began a request and does not go on must not keep its buffer."""
        if self.pool.is_short:
            for connection in list(self.connections):
                connection.close_if_stalled(now)
