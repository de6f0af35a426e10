"""This broker as the cluster knows it: what it registers with, and whether the metadata names it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.lifecycle import Lifecycle, previous_epoch
from ottla.broker.log_dirs import OpenedDirs
from ottla.metadata.controller.hosts import host_feature
from ottla.metadata.controller.partition_change import DIRECTORIES
from ottla.metadata.controller.requests import RegisterBroker
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint, MetadataImage

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.broker")


def registration_of(node: Node, endpoints: tuple[Endpoint, ...], opened: OpenedDirs) -> RegisterBroker:
    return RegisterBroker(
        node.config.node_id,
        node.cluster_id,
        node.env.random.uuid(),
        endpoints,
        (*node.software.features.items(), *host_feature(node.config.host_label)),
        tuple(log_dir.id for log_dir in opened.online),
        node.config.broker_rack,
        previous_epoch(opened.online, all_online=not opened.offline),
    )


class OwnRegistration:
    """Follows what the metadata says of this broker, and of others that want to go."""

    def __init__(self, node: Node, lifecycle: Lifecycle) -> None:
        self._node = node
        self._lifecycle = lifecycle
        self._unfenced = asyncio.Event()

    async def unfenced(self) -> None:
        """Until this node itself knows that it may serve: clients are told of it from here too."""
        await self._unfenced.wait()

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """As in Kafka, a broker that was unregistered has no place in the cluster until it starts anew."""
        node, own = self._node, image.brokers.get(self._node.config.node_id)
        if node.is_registered and own is None:
            _log.error(
                "this node was unregistered (UnregisterBroker): it leads nothing and no client is sent to it. "
                "Restart it, then it takes its place again."
            )
        node.is_registered = own is not None
        if own is not None and own.epoch == node.broker_epoch:
            if not own.fenced:
                self._unfenced.set()
            if not own.directories and image.metadata_version >= DIRECTORIES:
                self._lifecycle.resend_registration()
        if any(
            broker_id != node.config.node_id
            and broker_id in image.brokers
            and image.brokers[broker_id].in_controlled_shutdown
            for broker_id in delta.changed_brokers
        ):
            # It waits until all know that its leaders are elsewhere, and so until our next heartbeat.
            self._lifecycle.wake()
