"""Answers for DescribeConfigs: each config with its value, where that came from, and what else was said about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.model.config.broker import BrokerConfig, broker_synonyms
from ottla.model.config.definition import ConfigDef, ConfigSource, ConfigType, format_value
from ottla.model.config.dynamic import base_name, definition_of
from ottla.model.config.group import group_values
from ottla.model.config.tables.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS
from ottla.model.config.tables.client_metrics import CLIENT_METRICS_CONFIGS
from ottla.model.config.tables.group import GROUP_CONFIGS
from ottla.model.config.tables.topic import TOPIC_CONFIGS
from ottla.model.config.topic import topic_values


class DescribedSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class DescribedConfig(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    read_only: bool
    type: ConfigType
    documentation: str | None
    synonyms: tuple[DescribedSynonym, ...]


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """A topic's configs; `names` picks some, and unknown ones among them are left out, as Kafka does."""
    values = topic_values(broker, overrides)
    described = []
    for definition in _picked(TOPIC_CONFIGS.values(), names):
        name = definition.name
        if definition.internal and name not in overrides:
            continue
        value = format_value(values[name])
        synonyms = _broker_layers(broker, definition.synonyms[0].name) if definition.synonyms else ()
        if name in overrides:
            synonyms = (DescribedSynonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG), *synonyms)
        described.append(_described(definition, value, synonyms, read_only=False))
    return described


def describe_broker(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """This broker's configs. What is set without being known is shown without its value: it may be a secret."""
    described = []
    for definition in _picked(BROKER_CONFIGS.values(), names):
        if definition.internal and not broker.is_set(definition.name):
            continue
        value = None if definition.is_sensitive else format_value(broker.get(definition.name))
        described.append(_broker_entry(definition.name, value, _broker_layers(broker, definition.name)))
    for name, text in broker.layers.merged().items():
        if name not in BROKER_CONFIGS and (not names or name in names):
            described.append(_broker_entry(name, _text(name, text), _broker_layers(broker, name)))
    return described


def describe_cluster_defaults(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """What was set dynamically for all brokers (the resource with an empty name)."""
    described = []
    for name, text in broker.layers.dynamic_default.items():
        if names and name not in names:
            continue
        layers = _broker_layers(broker, name)
        own = tuple(entry for entry in layers if entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        described.append(_broker_entry(name, _text(name, text), own))
    return described


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """A group's configs, whether there is such a group or not: it may come to be."""
    values = group_values(broker, overrides)
    described = []
    for definition in _picked(GROUP_CONFIGS.values(), names):
        name = definition.name
        value = format_value(values[name])
        synonyms = _broker_layers(broker, definition.synonyms[0].name) if definition.synonyms else ()
        if name in overrides:
            synonyms = (DescribedSynonym(name, value, ConfigSource.GROUP_CONFIG), *synonyms)
        elif not synonyms:
            synonyms = (DescribedSynonym(name, value, ConfigSource.DEFAULT_CONFIG),)
        described.append(_described(definition, value, synonyms, read_only=False))
    return described


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    described = []
    for definition in _picked(CLIENT_METRICS_CONFIGS.values(), names):
        name = definition.name
        value = overrides.get(name, definition.default_text)
        own = DescribedSynonym(name, value, ConfigSource.CLIENT_METRICS_CONFIG)
        described.append(_described(definition, value, (own,) if name in overrides else (), read_only=False))
    return described


def _picked(definitions: Iterable[ConfigDef], names: Collection[str] | None) -> list[ConfigDef]:
    return [definition for definition in definitions if not names or definition.name in names]


def _broker_entry(name: str, value: str | None, synonyms: tuple[DescribedSynonym, ...]) -> DescribedConfig:
    definition = definition_of(name)
    if definition is None:
        return DescribedConfig(name, None, synonyms[0].source, True, True, ConfigType.UNKNOWN, None, synonyms)
    # Kafka calls a config of one listener read-only, though it takes some of them.
    described = _described(definition, value, synonyms, read_only=name not in DYNAMIC_CONFIGS)
    return described._replace(name=name)


def _described(
    definition: ConfigDef, value: str | None, synonyms: tuple[DescribedSynonym, ...], *, read_only: bool
) -> DescribedConfig:
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return DescribedConfig(
        definition.name, value, source, definition.is_sensitive, read_only, definition.type, definition.doc, synonyms
    )


def _broker_layers(broker: BrokerConfig, name: str) -> tuple[DescribedSynonym, ...]:
    """Everything that was said about a broker config under any of its names, the strongest first.

    What comes before the first mention of `name` itself is left out, so a topic's retention.ms that is set by
    log.retention.hours alone is told as a default: Kafka's answer, strange as it is.
    """
    names = broker_synonyms(name) if base_name(name) == name else (name, base_name(name))
    found: list[DescribedSynonym] = []
    for source, layer in broker.layers.by_precedence():
        found += [DescribedSynonym(each, _text(each, layer[each]), source) for each in names if each in layer]
    for each in names:
        default = BROKER_CONFIGS[each].default_text if each in BROKER_CONFIGS else None
        if default is not None:
            found.append(DescribedSynonym(each, _text(each, default), ConfigSource.DEFAULT_CONFIG))
    while found and found[0].name != name:
        del found[0]
    return tuple(found)


def _text(name: str, value: str) -> str | None:
    definition = definition_of(name)
    return None if definition is None or definition.is_sensitive else value
