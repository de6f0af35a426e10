"""How the controller checks configs: by the tables of ottla.model.config."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.metadata.controller.settings import ConfigRules
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    BrokerConfig,
    ConfigDef,
    ConfigError,
    ConfigType,
    validate_topic_configs,
)


def config_rules(config: BrokerConfig) -> ConfigRules:
    def check(resource: ConfigResource, values: Mapping[str, str]) -> str | None:
        if resource.type != ResourceType.TOPIC:
            return None
        try:
            validate_topic_configs(values, config)
        except ConfigError as error:
            return str(error)
        return None

    return ConfigRules(check, _is_list, _default)


def _definition(resource: ConfigResource, name: str) -> ConfigDef | None:
    return (TOPIC_CONFIGS if resource.type == ResourceType.TOPIC else BROKER_CONFIGS).get(name)


def _is_list(resource: ConfigResource, name: str) -> bool:
    definition = _definition(resource, name)
    return definition is not None and definition.type is ConfigType.LIST


def _default(resource: ConfigResource, name: str) -> str | None:
    definition = _definition(resource, name)
    if definition is None or definition.default_value is None:
        return None
    value = definition.default_value
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
