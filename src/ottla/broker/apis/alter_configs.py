"""AlterConfigs (key 33): all configs of a resource anew; what is not named goes back to its default. Deprecated.

Versions: 2 is flexible.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ottla.broker.config_changes import (
    alter,
    demand_possible,
    demand_stored_type,
    demand_this_node,
    demand_values,
    resource_of,
)
from ottla.broker.context import Context
from ottla.metadata.controller.requests import AlterConfigs
from ottla.metadata.image import ResourceType


def handle(context: Context, request: Any) -> Coroutine[Any, Any, Any]:
    return alter(context, request, _check, lambda rows: request_for(rows, request.validate_only), passes_on=True)


def request_for(rows: list[Any], validate_only: bool) -> AlterConfigs:
    return AlterConfigs(
        tuple((resource_of(row), tuple((config.name, config.value) for config in row.configs)) for row in rows),
        validate_only,
    )


def _check(context: Context, row: Any) -> bool:
    demand_values([config.name for config in row.configs if config.value is None])
    demand_stored_type(row)
    if row.resource_type == ResourceType.BROKER:
        if row.resource_name:
            demand_this_node(context, row.resource_name)
        demand_possible(context, row.resource_name, {config.name: config.value for config in row.configs})
    return False
