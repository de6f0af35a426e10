"""IncrementalAlterConfigs (key 44) on a controller: as on a broker, without what only a broker can check.

A broker passes on what it has looked at; tools that know controllers alone ask directly. Levels of loggers are those of
this node.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from ottla.broker.apis.incremental_alter_configs import alter_levels, request_for
from ottla.broker.config_changes import alter, demand_stored_type, demand_values
from ottla.broker.context import Context
from ottla.metadata.controller.requests import AlterOp, IncrementalAlterConfigs
from ottla.metadata.image import ResourceType


def handle(context: Context, request: Any) -> Coroutine[Any, Any, Any]:
    def check(context: Context, row: Any) -> bool:
        demand_values([c.name for c in row.configs if c.config_operation != AlterOp.DELETE and c.value is None])
        if row.resource_type == ResourceType.BROKER_LOGGER:
            alter_levels(context, row, validate_only=request.validate_only)
            return True
        demand_stored_type(row)
        return False

    def request_of(rows: list[Any]) -> IncrementalAlterConfigs:
        return replace(request_for(rows, request.validate_only), is_looked_at=context.forwarded_host is not None)

    return alter(context, request, check, request_of)
