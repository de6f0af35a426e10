"""DeleteGroups (key 42): groups without members, and the offsets that were committed for them.

Versions: 1 says nothing new, 2 is flexible.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from ottla.broker.context import Context
from ottla.broker.group_requests import code_of, submit
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource


async def handle(context: Context, request: Any) -> Any:
    asked = dict.fromkeys(request.groups_names)
    allowed = [group_id for group_id in asked if context.allowed(Operation.DELETE, Resource.GROUP, group_id)]
    told = {group_id: submit(context, group_id, partial(_delete, group_id)) for group_id in allowed}
    if told:
        await asyncio.wait(told.values())
    codes = {group_id: _code(future) for group_id, future in told.items()}
    refused = {group_id: ErrorCode.group_authorization_failed for group_id in asked if group_id not in told}
    return context.respond(
        throttle_time=timedelta(0),
        results=[{"group_id": group_id, "error_code": code} for group_id, code in {**codes, **refused}.items()],
    )


def _delete(group_id: str, machine: GroupMachine) -> Outcome[list[ErrorCode]]:
    return machine.delete([group_id])


def _code(told: asyncio.Future[list[ErrorCode]]) -> ErrorCode:
    code = code_of(told)
    return told.result()[0] if code is ErrorCode.none else code
