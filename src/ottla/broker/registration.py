"""This broker's place in the cluster: it registers, becomes unfenced, and learns when it was unregistered."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from uuid import UUID

from ottla.metadata.controller.features import SUPPORTED
from ottla.metadata.controller.requests import RegisterBroker, UnfenceBroker
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.model.errors import KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.broker")


class Registration:
    def __init__(self, node: Node) -> None:
        self._node = node

    async def register(self, endpoints: tuple[Endpoint, ...], directory_ids: tuple[UUID, ...]) -> None:
        node = self._node
        registration = RegisterBroker(
            node.config.node_id,
            node.cluster_id,
            node.env.random.uuid(),
            endpoints,
            tuple(SUPPORTED.items()),
            directory_ids,
            node.config.broker_rack,
        )
        try:
            node.broker_epoch = await node.controller.submit(registration)
        except KafkaError as error:
            raise OttlaError(
                f"this node cannot join its cluster: {error}. If Apache Kafka began these folders, it has finalised "
                "features that Ottla does not have yet; give Ottla folders of its own."
            ) from error

    async def unfence(self) -> None:
        await self._node.controller.submit(UnfenceBroker(self._node.config.node_id, self._node.broker_epoch))

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """As in Kafka, a broker that was unregistered has no place in the cluster until it starts anew."""
        node = self._node
        if node.is_registered and node.config.node_id not in image.brokers:
            _log.error(
                "this node was unregistered (UnregisterBroker): it leads nothing and no client is sent to it. "
                "Restart it, then it takes its place again."
            )
        node.is_registered = node.config.node_id in image.brokers
