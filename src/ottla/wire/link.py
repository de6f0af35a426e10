"""The way from this node to another: one connection, opened when something is to be said, and again when it was lost.

All who use a link share its connection, and one attempt to open it. After a failed attempt the link rests: whoever
asks meanwhile is told at once why the last one failed, so that a node which is gone costs next to nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.env.backoff import Backoff
from ottla.env.ports import Buffer, Env
from ottla.wire.client import (
    CONNECT_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    Connection,
    ConnectionFailed,
    RequestTimedOut,
    VersionRange,
)

RECONNECT: Final = Backoff(50, 50)  # as between Kafka's nodes


class Link:
    def __init__(
        self,
        env: Env,
        host: str,
        port: int,
        client_id: str,
        *,
        backoff: Backoff = RECONNECT,
        connect_within: float = CONNECT_TIMEOUT_S,
        negotiates: bool = False,
    ) -> None:
        """`negotiates`: the other's versions are asked for with every new connection (`Connection.best_version`)."""
        self.host, self.port = host, port
        self.on_lost: Callable[[ConnectionFailed], None] | None = None
        """An open connection has ended, and not by `close`."""
        self._env = env
        self._client_id = client_id
        self._backoff = backoff
        self._connect_within = connect_within
        self._negotiates = negotiates
        self._connection: Connection | None = None
        self._opening: asyncio.Task[Connection] | None = None
        self._failures = 0
        self._failure: ConnectionFailed | None = None
        self._rests_until = 0.0

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed

    @property
    def versions(self) -> dict[int, VersionRange] | None:
        """What the other offers, if it has been asked on a connection that is still open."""
        return self._connection.versions if self._connection is not None and self.is_open else None

    @property
    def rest(self) -> float:
        """For how many seconds it is in vain to ask."""
        return max(self._rests_until - self._env.loop.time(), 0.0)

    async def connection(self) -> Connection:
        """ConnectionFailed if there is none, and none can be opened."""
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._opening is None:
            if self._failure is not None and self.rest > 0:
                raise ConnectionFailed(str(self._failure))
            self._opening = self._env.loop.create_task(self._open(), name=f"connect to {self.host}:{self.port}")
            self._opening.add_done_callback(self._opened)
        return await self._until_open(self._opening)

    async def _until_open(self, opening: asyncio.Task[Connection]) -> Connection:
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if not opening.cancelled() or (waiting is not None and waiting.cancelling()):
                raise
            # `close` ended the attempt; who waits for it is not to end with it
            raise ConnectionFailed(f"the connection to {self.host}:{self.port} was given up") from None

    async def call(self, request: Any, *, within: float = REQUEST_TIMEOUT_S) -> Any:
        """Sends one of kio's request entities and gives the response entity of the same version."""
        connection = await self.connection()
        try:
            return await connection.call(request, within=within)
        except RequestTimedOut:
            self._abandon(connection)
            raise

    async def send_bytes(
        self, key: int, version: int, body: Sequence[Buffer], *, within: float = REQUEST_TIMEOUT_S
    ) -> memoryview:
        connection = await self.connection()
        try:
            return await connection.send_bytes(key, version, body, within=within)
        except RequestTimedOut:
            self._abandon(connection)
            raise

    async def close(self) -> None:
        """Ends the connection and what is under way on it. Whoever asks again opens another."""
        if self._opening is not None:
            self._opening.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _abandon(self, connection: Connection) -> None:
        """As Kafka: answers come in order, so that behind one that does not come all others wait."""
        connection.abort()

    async def _open(self) -> Connection:
        connection = await Connection.open(
            self._env, self.host, self.port, self._client_id, within=self._connect_within
        )
        try:
            if self._negotiates:
                await connection.negotiate(within=self._connect_within)
        except BaseException:
            await connection.close()
            raise
        connection.on_lost = self._lost
        return connection

    def _opened(self, opening: asyncio.Task[Connection]) -> None:
        self._opening = None
        if opening.cancelled():
            return
        error = opening.exception()
        if error is None:
            self._connection = opening.result()
            self._failures, self._failure = 0, None
        else:
            self._failures += 1
            self._failure = error if isinstance(error, ConnectionFailed) else ConnectionFailed(str(error))
            self._rests_until = self._env.loop.time() + self._backoff.seconds(self._failures, self._env.random)

    def _lost(self, connection: Connection, reason: ConnectionFailed) -> None:
        if connection is self._connection:
            self._connection = None
            if self.on_lost is not None:
                self.on_lost(reason)
