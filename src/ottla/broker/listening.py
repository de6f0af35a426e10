"""The listeners of one role, broker or controller, and the connections that they accept. As in Kafka, each role has
limits of its own."""

from __future__ import annotations

import errno
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.connection_config import connection_limits, idle_check_ms, socket_options
from ottla.env.ports import Listener
from ottla.model.config import BrokerConfig
from ottla.model.errors import OttlaError
from ottla.model.listeners import Endpoint
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_limits import ListenerGate
from ottla.wire.connection_settings import Handler
from ottla.wire.server import ConnectionSettings, ServerConnection

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.broker")
_STALL_CHECK_MS: Final = 5_000
_DRAIN_SECONDS: Final = 2.0


class Listening:
    def __init__(self, node: Node, handler: Handler, pool: BufferPool) -> None:
        self.connections = ConnectionSettings(handler, node.env, pool, node.config.socket_request_max_bytes)
        self.listeners: dict[str, Listener] = {}
        self._node = node

    @property
    def ports(self) -> dict[str, int]:
        return {name: listener.port for name, listener in self.listeners.items()}

    async def open(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Takes the ports. Nobody is answered before `serve`."""
        self.connections.limits.configure(await connection_limits(self._node.config))
        self._node.dynamic_config.on_change(self._limit_connections)
        for endpoint in endpoints:
            await self._open(endpoint)

    async def serve(self) -> None:
        for listener in self.listeners.values():
            await listener.serve()
        timers = self._node.timers
        timers.after(_STALL_CHECK_MS, self._check_stalled)
        timers.after(idle_check_ms(self._node.config.connections_max_idle_ms), self._check_idle)

    async def stop(self) -> None:
        """Closes the ports, and the connections once what was under way is answered, or takes too long."""
        for listener in self.listeners.values():
            listener.close()
        await self.connections.drain(_DRAIN_SECONDS)
        for connection in list(self.connections.connections):
            connection.give_up()

    async def change_to(self, endpoints: tuple[Endpoint, ...]) -> None:
        """As in Kafka: names come and go. Another address for the same name counts after a restart."""
        wanted = {endpoint.name: endpoint for endpoint in endpoints}
        for name in [name for name in self.listeners if name not in wanted]:
            listener = self.listeners.pop(name)
            self.connections.limits.on_room.remove(listener.resume)
            listener.close()
            for connection in [each for each in self.connections.connections if each.listener == name]:
                connection.give_up()
        for name, endpoint in wanted.items():
            if name not in self.listeners:
                try:
                    await (await self._open(endpoint)).serve()
                except OttlaError as error:
                    _log.error(
                        "%s. The other listeners go on; correct `listeners`, or free the port and restart.", error
                    )

    async def _open(self, endpoint: Endpoint) -> Listener:
        limits = self.connections.limits
        self.connections.opened.setdefault(endpoint.name, 0)
        try:
            listener = await self._node.env.network.listen(
                partial(ServerConnection, self.connections, endpoint.name),
                endpoint.host,
                endpoint.port,
                ListenerGate(limits, endpoint.name),
                socket_options(self._node.config),
            )
        except OSError as error:
            raise OttlaError(f"cannot listen on {endpoint}: {error.strerror or error}{_advice(error)}") from error
        self.listeners[endpoint.name] = listener
        limits.on_room.append(listener.resume)
        return listener

    async def _limit_connections(self, _: BrokerConfig, now: BrokerConfig) -> None:
        self.connections.limits.configure(await connection_limits(now))

    def _check_idle(self) -> None:
        idle_ms = self._node.config.connections_max_idle_ms
        if idle_ms >= 0:
            self.connections.close_idle(self._node.env.loop.time(), idle_ms / 1000)
        self._node.timers.after(idle_check_ms(idle_ms), self._check_idle)

    def _check_stalled(self) -> None:
        self.connections.close_stalled(self._node.env.loop.time())
        self._node.timers.after(_STALL_CHECK_MS, self._check_stalled)


def _advice(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return ". Another program has that port, maybe a node that still runs: stop it, or change `listeners`"
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            ". `listeners` must name an address of this machine; what others shall use goes into advertised.listeners"
        )
    return ""
