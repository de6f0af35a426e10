"""The listener of a node's controller: other nodes ask here, and tools that are given `--bootstrap-controller`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ottla.broker.controller_apis.registry import ALL
from ottla.broker.dispatch import Dispatcher
from ottla.broker.listening import Listening
from ottla.metadata.image import Endpoint as ToldEndpoint
from ottla.raft.voters import Endpoint
from ottla.wire.buffers import BufferPool

if TYPE_CHECKING:
    from ottla.broker.node import Node


class ControllerListener:
    """Opened before the quorum takes part, so that it can say where it listens; served once it can answer."""

    def __init__(self, node: Node, pool: BufferPool) -> None:
        self.dispatcher = Dispatcher(node, ALL)
        self.listening = Listening(node, self.dispatcher, pool)
        self._node = node

    @property
    def advertised(self) -> tuple[ToldEndpoint, ...]:
        ports = self.listening.ports
        return tuple(
            ToldEndpoint(end.name, end.host, end.port, end.protocol.value)
            for end in self._node.config.listeners.advertise_controller(ports, socket.getfqdn)
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """As the quorum knows them."""
        return tuple(Endpoint(end.name, end.host, end.port) for end in self.advertised)

    async def open(self) -> None:
        await self.listening.open(self._node.config.listeners.controller)

    async def serve(self) -> None:
        await self.listening.serve()

    async def stop(self) -> None:
        await self.listening.stop()
        await self.dispatcher.stop()
