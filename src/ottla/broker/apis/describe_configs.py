"""DescribeConfigs (key 32): the configs of topics, groups, this broker and its loggers, and where each comes from.

Versions: 1 is the oldest, with synonyms (KIP-226); 3 adds types and documentation (KIP-569), 4 is flexible.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from ottla.broker import loggers
from ottla.broker.compaction_state import COMPACTION_STATE, compaction_state
from ottla.broker.config_changes import demand_this_node
from ottla.broker.context import Context
from ottla.env.slices import breathe
from ottla.metadata.controller.topic_names import what_is_wrong
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config import (
    ConfigSource,
    DescribedConfig,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from ottla.model.config.definition import ConfigType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_KNOWN_TYPES: Final = frozenset(ResourceType)
# Groups and subscriptions need not exist to be described, and 1, 01 and +1 are one broker: this many configs in all.
_MOST_IMAGINED: Final = 50_000


def handle(context: Context, request: Any) -> Any:
    unknown = [row.resource_type for row in request.resources if row.resource_type not in _KNOWN_TYPES]
    results = []
    imagined = 0
    # Once for each, though Kafka tells a resource as often as it is named: a small request must not have a huge answer.
    resources: dict[tuple[int, str], Any] = {}
    for row in request.resources:
        resources.setdefault((row.resource_type, row.resource_name), row)
    for row in resources.values():
        try:
            if unknown:  # as in Kafka, one wrong type spoils them all
                raise KafkaError(ErrorCode.invalid_request, f"resource type {unknown[0]} is not known")
            if row.resource_type != ResourceType.TOPIC and imagined >= _MOST_IMAGINED:
                raise KafkaError(ErrorCode.invalid_request, "too much for one answer: ask for these in another request")
            configs = _describe(context, row)
            imagined += len(configs) if row.resource_type != ResourceType.TOPIC else 0
        except KafkaError as error:
            results.append(_result(row, error.code, error.message or "", []))
        else:
            entries = [_entry(config, request, context.version) for config in configs]
            results.append(_result(row, ErrorCode.none, "", entries))
    return context.respond(throttle_time=timedelta(0), results=results)


def _describe(context: Context, row: Any) -> list[DescribedConfig]:
    """KafkaError where the answer is an error."""
    kind, name = row.resource_type, row.resource_name
    keys = None if row.configuration_keys is None else frozenset(row.configuration_keys)
    if kind == ResourceType.TOPIC:
        _demand(context, Resource.TOPIC, name, ErrorCode.topic_authorization_failed)
        return _topic(context, name, keys)
    image = context.node.image
    if kind == ResourceType.GROUP:
        _demand(context, Resource.GROUP, name, ErrorCode.group_authorization_failed)
        _demand_name(name, "Group name must not be empty")
        return describe_group(context.node.config, image.config(ConfigResource(ResourceType.GROUP, name)), keys)
    _demand(context, Resource.CLUSTER, CLUSTER_NAME, ErrorCode.cluster_authorization_failed)
    if kind == ResourceType.BROKER:
        return _broker(context, name, keys)
    if kind == ResourceType.BROKER_LOGGER:
        _demand_name(name, "Broker id must not be empty")
        demand_this_node(context, name)
        return _loggers(keys)
    _demand_name(name, "Client metrics subscription name must not be empty")
    return describe_client_metrics(image.config(ConfigResource(ResourceType.CLIENT_METRICS, name)), keys)


def _demand(context: Context, resource: Resource, name: str, otherwise: ErrorCode) -> None:
    if not context.allowed(Operation.DESCRIBE_CONFIGS, resource, name):
        raise KafkaError(otherwise, "describing the configs of this resource is not allowed")


def _demand_name(name: str, otherwise: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.invalid_request, otherwise)


def _topic(context: Context, name: str, keys: Collection[str] | None) -> list[DescribedConfig]:
    if (wrong := what_is_wrong(name)) is not None:
        raise KafkaError(ErrorCode.invalid_topic_exception, wrong)
    image = context.node.image
    if image.topic(name) is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, "")
    found = describe_topic(context.node.config, image.topic_config(name), keys)
    if keys is not None and COMPACTION_STATE in keys:
        found.append(compaction_state(context.node, name))
    return found


def _broker(context: Context, name: str, keys: Collection[str] | None) -> list[DescribedConfig]:
    if not name:
        return describe_cluster_defaults(context.node.config, keys)
    demand_this_node(context, name)
    return describe_broker(context.node.config, keys)


def _loggers(keys: Collection[str] | None) -> list[DescribedConfig]:
    source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
    return [
        DescribedConfig(name, level, source, False, False, ConfigType.UNKNOWN, "", synonyms=())
        for name, level in loggers.levels().items()
        if not keys or name in keys
    ]


def _result(row: Any, code: ErrorCode, message: str, configs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "resource_type": row.resource_type,
        "resource_name": row.resource_name,
        "configs": configs,
    }


def _entry(config: DescribedConfig, request: Any, version: int) -> dict[str, Any]:
    breathe()
    return {
        "name": config.name,
        "value": config.value,
        "read_only": config.read_only,
        "config_source": config.source,
        "is_sensitive": config.is_sensitive,
        "synonyms": [synonym._asdict() for synonym in config.synonyms] if request.include_synonyms else [],
        "config_type": config.type,
        "documentation": config.documentation if version >= 3 and request.include_documentation else None,
    }
