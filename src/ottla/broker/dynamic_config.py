"""The broker configs in force: the one place that knows them while a node runs.

What stands in a file is the beginning; what was set for all brokers and for this one, in the metadata, goes over it.
`current` is swapped whole when that changes, and those who keep something made from a config are told.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.model.config import BrokerConfig, ConfigError
from ottla.model.config.dynamic import usable

Listener = Callable[[BrokerConfig, BrokerConfig], Awaitable[None] | None]
"""Told what held before and what holds now."""
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")

_log = logging.getLogger("ottla.broker")


class DynamicConfig:
    def __init__(self, static: BrokerConfig) -> None:
        self.current = static
        self._listeners: list[Listener] = []

    @property
    def own_resource(self) -> ConfigResource:
        return ConfigResource(ResourceType.BROKER, str(self.current.node_id))

    def on_change(self, listener: Listener) -> None:
        self._listeners.append(listener)

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A publisher of metadata, and the first: those after it see the new configs already."""
        own = self.own_resource
        if ALL_BROKERS in delta.changed_configs or own in delta.changed_configs:
            await self._apply(image.config(ALL_BROKERS), image.config(own))

    async def _apply(self, for_all: Mapping[str, str], for_this: Mapping[str, str]) -> None:
        cluster, wrong_for_all = usable(for_all, per_broker=False)
        broker, wrong_for_this = usable(for_this, per_broker=True)
        for error in (*wrong_for_all, *wrong_for_this):
            _log.error("a stored config is ignored: %s", error)
        before = self.current
        try:
            self.current = before.with_dynamic(cluster=cluster, broker=broker)
        except ConfigError as error:
            _log.error("the stored configs of this broker do not go together, those before them stay: %s", error)
            return
        for listener in self._listeners:
            work = listener(before, self.current)
            if work is not None:
                await work
