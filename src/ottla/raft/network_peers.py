"""The way to the other replicas over TCP: one connection to each, opened when it is needed."""

from __future__ import annotations

import logging

from ottla.env.ports import Env
from ottla.model.errors import OttlaError
from ottla.raft import rpc
from ottla.raft.messages import Destination, Request, Response
from ottla.raft.node import Gone
from ottla.record.records import CorruptBatch
from ottla.wire.client import Connection, ConnectionFailed

_log = logging.getLogger("ottla.raft")


class NetworkPeers:
    """A replica asks one thing of another at a time, so answers never wait behind a Fetch that waits for records."""

    def __init__(self, env: Env, listener: str, client_id: str, request_timeout_ms: int) -> None:
        self._env = env
        self._listener = listener
        self._client_id = client_id
        self._within = request_timeout_ms / 1000
        self._connections: dict[Destination, Connection] = {}

    async def ask(self, to: Destination, request: Request) -> Response | None:
        try:
            entity = rpc.request_entity(request)
        except rpc.NotOnTheWire as error:
            _log.debug("%s", error)
            return None
        try:
            connection = self._connections.get(to)
            if connection is None or connection.is_closed:
                connection = await self._open(to)
            try:
                answer = await connection.call(entity, within=self._within)
            except ConnectionFailed:
                # Its process may be gone, or only the connection: dialling tells. Nothing is asked twice.
                await self._forget(to)
                await self._open(to)
                return None
            return rpc.response_of(answer, self._listener)
        except (OttlaError, rpc.WrongPartition, rpc.NotOnTheWire, CorruptBatch) as error:
            _log.debug("%s to node %d at %s:%d: %s", type(request).__name__, to.id, to.host, to.port, error)
            await self._forget(to)
            return None

    async def _open(self, to: Destination) -> Connection:
        try:
            connection = await Connection.open(self._env, to.host, to.port, self._client_id, within=self._within)
        except ConnectionFailed as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise Gone from error
            raise
        self._connections[to] = connection
        return connection

    async def close(self) -> None:
        for to in list(self._connections):
            await self._forget(to)

    async def _forget(self, to: Destination) -> None:
        connection = self._connections.pop(to, None)
        if connection is not None:
            await connection.close()
