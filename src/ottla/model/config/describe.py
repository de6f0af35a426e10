"""Answers for DescribeConfigs: each config with its value, where that came from, and what else was said about it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.model.config.broker import BrokerConfig, broker_synonyms
from ottla.model.config.definition import ConfigDef, ConfigSource, ConfigType, Update, format_value
from ottla.model.config.tables.broker import BROKER_CONFIGS
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
        described.append(_broker_entry(broker, definition, _broker_layers(broker, definition.name)))
    for name in broker.layers.merged():
        if name not in BROKER_CONFIGS and (not names or name in names):
            synonyms = _broker_layers(broker, name)
            described.append(
                DescribedConfig(name, None, synonyms[0].source, True, True, ConfigType.UNKNOWN, None, synonyms)
            )
    return described


def describe_cluster_defaults(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """What was set dynamically for all brokers (the resource with an empty name)."""
    described = []
    for name in broker.layers.dynamic_default:
        if (names and name not in names) or name not in BROKER_CONFIGS:
            continue
        layers = _broker_layers(broker, name)
        own = tuple(entry for entry in layers if entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        described.append(_broker_entry(broker, BROKER_CONFIGS[name], own)._replace(value=own[0].value))
    return described


def _picked(definitions: Iterable[ConfigDef], names: Collection[str] | None) -> list[ConfigDef]:
    return [definition for definition in definitions if not names or definition.name in names]


def _broker_entry(
    broker: BrokerConfig, definition: ConfigDef, synonyms: tuple[DescribedSynonym, ...]
) -> DescribedConfig:
    value = None if definition.is_sensitive else format_value(broker.get(definition.name))
    return _described(definition, value, synonyms, read_only=definition.update is Update.READ_ONLY)


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
    names = broker_synonyms(name)
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
    definition = BROKER_CONFIGS.get(name)
    return None if definition is None or definition.is_sensitive else value
