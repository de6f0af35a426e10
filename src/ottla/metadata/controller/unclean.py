"""Whether a topic would rather lose records than be without a leader."""

from collections.abc import Callable
from functools import cache
from typing import Final

from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType

_CONFIG: Final = "unclean.leader.election.enable"
_ALL_BROKERS: Final = ConfigResource(ResourceType.BROKER, "")


def may_be_unclean(image: MetadataImage, settings: ControllerSettings) -> Callable[[str], bool]:
    """By topic name: the topic's own config, else the brokers' dynamic default, else what the settings say."""
    for_all = image.config(_ALL_BROKERS).get(_CONFIG)

    @cache
    def of_topic(name: str) -> bool:
        value = image.topic_config(name).get(_CONFIG, for_all)
        if value is None:
            value = settings.configs.inherited(_CONFIG)
        return value == "true"

    return of_topic
