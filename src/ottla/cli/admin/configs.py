"""Configs of topics, brokers, loggers, groups and client metrics: as they are, and changing them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, cast

from ottla.cli.admin.session import Session, raise_for
from ottla.cli.secrets import HIDDEN
from ottla.model.errors import OttlaError
from ottla.model.names import ResourceType


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


DYNAMIC_TOPIC_CONFIG: Final = 1
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
DEFAULT_CONFIG: Final = 5

SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "all brokers",
    4: "server.properties",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Where a value comes from, in the words of the commands; the numbers are DescribeConfigs'."""


class Resource(NamedTuple):
    type: ResourceType
    name: str

    def __str__(self) -> str:
        if self.type is ResourceType.BROKER and not self.name:
            return "all brokers"
        return f"{_NAMES[self.type]} {self.name}"

    @property
    def broker(self) -> int | None:
        """Which broker alone can tell; None if any can."""
        of_one = self.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and self.name
        return int(self.name) if of_one else None

    @property
    def own_source(self) -> int:
        """Where a value comes from that was set for this resource itself."""
        all_brokers = self.type is ResourceType.BROKER and not self.name
        return DYNAMIC_DEFAULT_BROKER_CONFIG if all_brokers else _OWN_SOURCES[self.type]


def of_topic(name: str) -> Resource:
    return Resource(ResourceType.TOPIC, name)


_NAMES: Final = {
    ResourceType.TOPIC: "topic",
    ResourceType.BROKER: "broker",
    ResourceType.BROKER_LOGGER: "loggers of broker",
    ResourceType.CLIENT_METRICS: "client metrics",
    ResourceType.GROUP: "group",
}


_OWN_SOURCES: Final = {
    ResourceType.TOPIC: DYNAMIC_TOPIC_CONFIG,
    ResourceType.BROKER: 2,
    ResourceType.BROKER_LOGGER: 6,
    ResourceType.CLIENT_METRICS: 7,
    ResourceType.GROUP: 8,
}


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]

    @property
    def shown(self) -> str:
        if self.sensitive:
            return HIDDEN
        return "-" if self.value is None else self.value

    @property
    def overridden(self) -> tuple[Synonym, ...]:
        """What would count without the value in force, the next one first."""
        return self.synonyms[1:]


class Change(NamedTuple):
    name: str
    operation: Operation
    value: str | None = None


async def configs(
    session: Session, resources: Sequence[Resource], names: Sequence[str] | None = None
) -> dict[Resource, list[ConfigEntry]]:
    """The configs of each resource, all or the named ones, sorted by name."""
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

    found: dict[Resource, list[ConfigEntry]] = {}
    for broker in dict.fromkeys(resource.broker for resource in resources):
        await _know_brokers(session, broker)
        asked = tuple(
            DescribeConfigsResource(
                resource_type=cast(Any, int(resource.type)),
                resource_name=resource.name,
                configuration_keys=None if names is None else tuple(names),
            )
            for resource in resources
            if resource.broker == broker
        )
        answer = await session.call(
            DescribeConfigsRequest(resources=asked, include_synonyms=True, include_documentation=False), broker=broker
        )
        for result in answer.results:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            raise_for(result.error_code, result.error_message, f"configs of {resource}")
            found[resource] = sorted(map(_entry, result.configs))
    return found


async def alter(session: Session, resource: Resource, changes: Sequence[Change], *, check_only: bool) -> None:
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    await _know_brokers(session, resource.broker)
    asked = AlterConfigsResource(
        resource_type=cast(Any, int(resource.type)),
        resource_name=resource.name,
        configs=tuple(
            AlterableConfig(name=change.name, config_operation=cast(Any, int(change.operation)), value=change.value)
            for change in changes
        ),
    )
    answer = await session.call(
        IncrementalAlterConfigsRequest(resources=(asked,), validate_only=check_only), broker=resource.broker
    )
    for result in answer.responses:
        raise_for(result.error_code, result.error_message, f"cannot change {resource}")


async def _know_brokers(session: Session, broker: int | None) -> None:
    if broker is not None:
        from ottla.cli.admin.brokers import know_brokers

        await know_brokers(session)
        if not session.brokers:
            raise OttlaError("the cluster names no brokers; is it still starting?")


def _entry(config: Any) -> ConfigEntry:
    synonyms = tuple(Synonym(each.name, each.value, int(each.source)) for each in config.synonyms)
    return ConfigEntry(
        config.name, config.value, int(config.config_source), config.read_only, config.is_sensitive, synonyms
    )
