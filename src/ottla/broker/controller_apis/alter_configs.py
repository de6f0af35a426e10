"""AlterConfigs (key 33) on a controller: apis/alter_configs.py, without what only a broker can check."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ottla.broker.apis.alter_configs import request_for
from ottla.broker.config_changes import alter, demand_stored_type, demand_values
from ottla.broker.context import Context


def handle(context: Context, request: Any) -> Coroutine[Any, Any, Any]:
    return alter(context, request, _check, lambda rows: request_for(rows, request.validate_only))


def _check(_: Context, row: Any) -> bool:
    demand_values([config.name for config in row.configs if config.value is None])
    demand_stored_type(row)
    return False
