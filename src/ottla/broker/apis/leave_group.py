"""LeaveGroup (key 13): members go; an administrator can remove many, static ones by their instance id alone.

Versions: 0 to 2, which librdkafka uses, name one member and have one error for it; 3 has a list of them (KIP-345), 4 is
flexible, 5 takes reasons (KIP-800).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import code_of, submit
from ottla.coordinator.group.classic.requests import LeaveAnswer, Leaving
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource

_HAS_MEMBERS: Final = 3
_HAS_REASONS: Final = 5


def handle(context: Context, request: Any) -> Any:
    group_id = request.group_id
    if not context.allowed(Operation.READ, Resource.GROUP, group_id):
        return _refuse(context, ErrorCode.group_authorization_failed)
    if not group_id:
        return _refuse(context, ErrorCode.invalid_group_id)
    leaving = _leaving(context, request)
    told = submit(context, group_id, lambda machine: machine.members.leave(group_id, leaving))
    for one in leaving:
        context.node.groups.history.left(group_id, one.member_id, context.connection)
    return Waiting(told, lambda told: _answer(context, leaving, told))


def _leaving(context: Context, request: Any) -> list[Leaving]:
    if context.version < _HAS_MEMBERS:
        return [Leaving(request.member_id)]
    has_reasons = context.version >= _HAS_REASONS
    return [
        Leaving(member.member_id, member.group_instance_id, member.reason if has_reasons else None)
        for member in request.members
    ]


def _answer(context: Context, leaving: list[Leaving], told: asyncio.Future[LeaveAnswer]) -> Any:
    code = code_of(told)
    if code is not ErrorCode.none:
        return _refuse(context, code)
    errors = told.result().errors
    if context.version < _HAS_MEMBERS:
        return _refuse(context, errors[0])
    members = [
        {"member_id": one.member_id, "group_instance_id": one.instance_id, "error_code": error}
        for one, error in zip(leaving, errors, strict=True)
    ]
    return context.respond(throttle_time=timedelta(0), error_code=ErrorCode.none, members=members)


def _refuse(context: Context, code: ErrorCode) -> Any:
    return context.respond(throttle_time=timedelta(0), error_code=code, members=[])
