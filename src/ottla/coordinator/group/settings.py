"""The configs of one group: its own, else the broker's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from ottla.coordinator.group.consumer.core import Settings
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.model.config import BrokerConfig
from ottla.model.config.group import group_values


class GroupSettings:
    """Asked with every heartbeat, so it is worked out only when a config has changed."""

    def __init__(self, config: Callable[[], BrokerConfig], image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image
        self._seen: BrokerConfig | None = None
        self._otherwise = Settings()
        self._own: dict[str, tuple[Mapping[str, str], Settings]] = {}

    def of_consumers(self, group_id: str) -> Settings:
        config = self._config()
        if config is not self._seen:
            self._seen = config
            self._otherwise = _settings(config, {})
            self._own.clear()
        overrides = self._image().configs.get(ConfigResource(ResourceType.GROUP, group_id))
        if not overrides:
            return self._otherwise
        known = self._own.get(group_id)
        if known is None or known[0] is not overrides:
            known = self._own[group_id] = (overrides, _settings(config, overrides))
        return known[1]


def _settings(config: BrokerConfig, overrides: Mapping[str, str]) -> Settings:
    values = group_values(config, overrides)
    names = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
    return Settings(*(cast(int, values[name]) for name in names))
