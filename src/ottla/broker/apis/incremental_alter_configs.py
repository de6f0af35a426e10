"""IncrementalAlterConfigs (key 44): some configs of a resource are set or unset, lists are added to (KIP-339).

Versions: 1 is flexible. Levels of loggers (KIP-412) are set here too: at once, and only until the node stops.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from ottla.broker import loggers
from ottla.broker.config_changes import (
    alter,
    demand_possible,
    demand_stored_type,
    demand_this_node,
    demand_values,
    resource_of,
)
from ottla.broker.context import Context
from ottla.metadata.controller.configs import edited
from ottla.metadata.controller.requests import AlterOp, ConfigChange, IncrementalAlterConfigs
from ottla.metadata.image import ResourceType
from ottla.model.config.definition import ConfigType
from ottla.model.config.dynamic import definition_of, usable
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_OPERATIONS: Final = {op.value: op for op in AlterOp}


def handle(context: Context, request: Any) -> Coroutine[Any, Any, Any]:
    def check(context: Context, row: Any) -> bool:
        demand_values([c.name for c in row.configs if c.config_operation != AlterOp.DELETE and c.value is None])
        if row.resource_type == ResourceType.BROKER_LOGGER:
            alter_levels(context, row, validate_only=request.validate_only)
            return True
        demand_stored_type(row)
        if row.resource_type == ResourceType.BROKER:
            if row.resource_name:
                demand_this_node(context, row.resource_name)
            demand_possible(context, row.resource_name, _values_after(context, row))
        return False

    return alter(context, request, check, lambda rows: request_for(rows, request.validate_only), passes_on=True)


def request_for(rows: list[Any], validate_only: bool) -> IncrementalAlterConfigs:
    if any(config.config_operation not in _OPERATIONS for row in rows for config in row.configs):
        raise KafkaError(ErrorCode.unknown_server_error)
    return IncrementalAlterConfigs(
        tuple(
            (
                resource_of(row),
                tuple(ConfigChange(c.name, _OPERATIONS[c.config_operation], c.value) for c in row.configs),
            )
            for row in rows
        ),
        validate_only,
    )


# -- brokers


def _values_after(context: Context, row: Any) -> dict[str, str]:
    """All that would be set for a broker, or for all of them."""
    values, _ = usable(context.node.image.config(resource_of(row)), per_broker=bool(row.resource_name))
    for config in row.configs:
        op = _OPERATIONS.get(config.config_operation)
        match op:
            case None:
                raise KafkaError(ErrorCode.invalid_request, f"Unknown operations type {config.config_operation}")
            case AlterOp.SET:
                values[config.name] = config.value
            case AlterOp.DELETE:
                values.pop(config.name, None)
            case _:
                values[config.name] = edited(values.get(config.name, _default(config.name, op)), op, config.value)
    return values


def _default(name: str, op: AlterOp) -> str:
    definition = definition_of(name)
    if definition is None:
        raise KafkaError(ErrorCode.invalid_config, f"Unknown config name: {name}")
    if definition.type is not ConfigType.LIST:
        message = f"Config value {op.name.lower()} is not allowed for config key: {name}"
        raise KafkaError(ErrorCode.invalid_config, message)
    return definition.default_text or ""


# -- loggers


def alter_levels(context: Context, row: Any, *, validate_only: bool) -> None:
    """All of them, or none if one is wrong."""
    if not context.allowed(Operation.ALTER_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.cluster_authorization_failed, "Cluster authorization failed.")
    demand_this_node(context, row.resource_name, "Unexpected node id. Expected {}, but received {}")
    for config in row.configs:
        _check_level(config)
    if validate_only:
        return
    for config in row.configs:
        if config.config_operation == AlterOp.SET:
            loggers.set_level(config.name, config.value)
        else:
            loggers.unset_level(config.name)


def _check_level(config: Any) -> None:
    op = _OPERATIONS.get(config.config_operation)
    if op is None:
        raise KafkaError(ErrorCode.unknown_server_error)
    if op in (AlterOp.APPEND, AlterOp.SUBTRACT):
        message = f"{op.name} operation is not allowed for the BROKER_LOGGER resource"
        raise KafkaError(ErrorCode.invalid_request, message)
    if not loggers.exists(config.name):
        raise KafkaError(ErrorCode.invalid_config, f"Logger {config.name} does not exist!")
    if op is AlterOp.SET and config.value not in loggers.LEVELS:
        raise KafkaError(
            ErrorCode.invalid_config,
            f"Cannot set the log level of {config.name} to {config.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(loggers.LEVELS))}",
        )
    if op is AlterOp.DELETE and config.name == loggers.ROOT:
        raise KafkaError(ErrorCode.invalid_request, "Removing the log level of the root logger is not allowed")
