"""AlterConfigs (key 33) on a controller: apis/alter_configs.py, without what only a broker can check."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from ottla.broker.apis.alter_configs import request_for
from ottla.broker.config_changes import alter, demand_stored_type, demand_values
from ottla.broker.context import Context
from ottla.metadata.controller.requests import AlterConfigs


def handle(context: Context, request: Any) -> Coroutine[Any, Any, Any]:
    def request_of(rows: list[Any]) -> AlterConfigs:
        return replace(request_for(rows, request.validate_only), is_looked_at=context.forwarded_host is not None)

    return alter(context, request, _check, request_of)


def _check(_: Context, row: Any) -> bool:
    demand_values([config.name for config in row.configs if config.value is None])
    demand_stored_type(row)
    return False
