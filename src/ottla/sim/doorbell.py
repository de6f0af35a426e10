"""A network that says when its node begins to serve: the last moment at which nobody can have changed anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ottla.env.ports import BY_DEFAULT, Gate, Listener, Network, SocketOptions


class Doorbell:
    def __init__(self, network: Network, rung: Callable[[], None]) -> None:
        self._network = network
        self._rung = rung
        self.connect = network.connect

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        gate: Gate | None = None,
        options: SocketOptions = BY_DEFAULT,
    ) -> Listener:
        return _Door(await self._network.listen(factory, host, port, gate, options), self._rung)


class _Door:
    def __init__(self, listener: Listener, rung: Callable[[], None]) -> None:
        self.host = listener.host
        self.port = listener.port
        self.close = listener.close
        self.resume = listener.resume
        self._listener = listener
        self._rung = rung

    async def serve(self) -> None:
        self._rung()
        await self._listener.serve()
