"""The listener of a node's controller: other nodes ask here, and tools that are given `--bootstrap-controller`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ottla.broker.controller_apis.registry import ALL
from ottla.broker.dispatch import Dispatcher
from ottla.broker.failure_detector import FailureDetector
from ottla.broker.listening import Listening
from ottla.metadata.image import Endpoint as ToldEndpoint
from ottla.raft.voters import Endpoint
from ottla.wire.buffers import BufferPool

if TYPE_CHECKING:
    from ottla.broker.node import Node


class ControllerListener:
    """Opened before the quorum takes part, so that it can say where it listens; served once it can answer."""

    def __init__(self, node: Node, pool: BufferPool) -> None:
        self.dispatcher = Dispatcher(node, node.software.offered(ALL), may_forward=False)
        self.dispatcher.metrics.role = "controller"
        self.listening = Listening(node, self.dispatcher, pool)
        self._node = node
        self.failure_detector: FailureDetector | None = None

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

    async def watch(self) -> None:
        """From now on dead brokers are noticed. To be called once there is a feed and a controller."""
        node = self._node
        detector = FailureDetector(
            node.env, node.config.node_id, node.local_controller, lambda: node.image, lambda: node.broker_epoch
        )
        self.failure_detector = detector
        self.listening.connections.on_lost.append(detector.lost)
        await node.feed.subscribe(detector.publish)

    async def stop(self) -> None:
        if self.failure_detector is not None:
            await self.failure_detector.stop()
        await self.listening.stop()
        await self.dispatcher.stop()
