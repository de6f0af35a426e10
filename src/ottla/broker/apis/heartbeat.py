"""Heartbeat (key 12): a member of a classic group is alive, and hears whether it has to join again.

Versions: 1 and 2 say nothing new, 3 knows instance ids (KIP-345), 4 is flexible.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import code_of, heard, submit
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource

_HAS_INSTANCE: Final = 3


def handle(context: Context, request: Any) -> Any:
    group_id = request.group_id
    if not context.allowed(Operation.READ, Resource.GROUP, group_id):
        return _respond(context, ErrorCode.group_authorization_failed)
    if not group_id:
        return _respond(context, ErrorCode.invalid_group_id)
    instance_id = request.group_instance_id if context.version >= _HAS_INSTANCE else None
    told = submit(
        context,
        group_id,
        lambda machine: machine.members.heartbeat(group_id, request.member_id, instance_id, request.generation_id),
    )
    heard(context, group_id, request.member_id)
    return Waiting(told, lambda told: _respond(context, _code(told)))


def _code(told: asyncio.Future[ErrorCode]) -> ErrorCode:
    code = code_of(told)
    if code is ErrorCode.coordinator_load_in_progress:
        return ErrorCode.none  # nobody's session runs out while groups are loaded
    return told.result() if code is ErrorCode.none else code


def _respond(context: Context, code: ErrorCode) -> Any:
    return context.respond(throttle_time=timedelta(0), error_code=code)
