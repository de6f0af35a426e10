"""Configs of topics that the controller itself goes by."""

from functools import cache
from typing import Final

from ottla.metadata.controller.features import MIN_ISR
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType

UNCLEAN: Final = "unclean.leader.election.enable"
ALL_BROKERS: Final = ConfigResource(ResourceType.BROKER, "")


class TopicSettings:
    """By topic name: the topic's own config, else this node's dynamic one, else the brokers' dynamic default, else what
    the settings say."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings) -> None:
        self._image = image
        of_node = image.config(ConfigResource(ResourceType.BROKER, str(settings.node_id)))
        self._for_all = {**image.config(ALL_BROKERS), **of_node}
        self._inherited = cache(settings.configs.inherited)

    def may_be_unclean(self, topic: str) -> bool:
        """Whether a topic would rather lose records than be without a leader."""
        return (self._value(topic, UNCLEAN) or "").lower() == "true"

    def min_isr(self, topic: str) -> int:
        return int(self._value(topic, MIN_ISR) or 1)

    def _value(self, topic: str, name: str) -> str | None:
        value = self._image.topic_config(topic).get(name, self._for_all.get(name))
        return self._inherited(name) if value is None else value
