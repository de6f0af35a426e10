"""The rules of topic configs as the controller asks for them. Brokers check their own configs before they come here."""

from collections.abc import Mapping
from typing import Any

from ottla.metadata.controller.settings import ConfigRules
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config.broker import BrokerConfig
from ottla.model.config.definition import ConfigType
from ottla.model.config.tables.topic import TOPIC_CONFIGS
from ottla.model.config.topic import topic_values, validate_topic_configs
from ottla.model.config_error import ConfigError


def config_rules(broker: BrokerConfig | None = None) -> ConfigRules:
    """With the defaults that this broker's config gives to topics."""
    defaults: dict[str, Any] = topic_values(broker, {})

    def check(resource: ConfigResource, values: Mapping[str, str]) -> str | None:
        if resource.type == ResourceType.TOPIC:
            try:
                validate_topic_configs(values, broker)
            except ConfigError as error:
                return str(error)
        return None

    def is_list(resource: ConfigResource, name: str) -> bool:
        definition = TOPIC_CONFIGS.get(name) if resource.type == ResourceType.TOPIC else None
        return definition is not None and definition.type is ConfigType.LIST

    def default(resource: ConfigResource, name: str) -> str | None:
        if resource.type != ResourceType.TOPIC or name not in TOPIC_CONFIGS:
            return None
        return TOPIC_CONFIGS[name].format(defaults[name])

    return ConfigRules(check, is_list, default)
