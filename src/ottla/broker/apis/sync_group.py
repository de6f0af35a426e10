"""SyncGroup (key 14): the leader brings what it has assigned, everyone else comes for it.

Versions: 1 and 2 say nothing new, 3 knows instance ids (KIP-345), 4 is flexible, 5 names the protocol and its type, and
then must (KIP-559).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import answer_of, ask, heard
from ottla.coordinator.group.classic.requests import SyncAnswer, SyncRequest
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource

_HAS_INSTANCE: Final = 3
_NAMES_PROTOCOL: Final = 5


def handle(context: Context, request: Any) -> Any:
    names_protocol = context.version >= _NAMES_PROTOCOL
    if names_protocol and (request.protocol_type is None or request.protocol_name is None):
        return _respond(context, SyncAnswer(ErrorCode.inconsistent_group_protocol))
    if not context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        return _respond(context, SyncAnswer(ErrorCode.group_authorization_failed))
    if not request.group_id:
        return _respond(context, SyncAnswer(ErrorCode.invalid_group_id))
    sync = SyncRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id if context.version >= _HAS_INSTANCE else None,
        request.generation_id,
        request.protocol_type if names_protocol else None,
        request.protocol_name if names_protocol else None,
        [(share.member_id, share.assignment) for share in request.assignments],
    )
    told: asyncio.Future[SyncAnswer] = ask(
        context, sync.group_id, lambda machine, answer: machine.members.sync(sync, answer)
    )
    heard(context, sync.group_id, sync.member_id)
    return Waiting(told, lambda told: _respond(context, answer_of(told, SyncAnswer)))


def _respond(context: Context, answer: SyncAnswer) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
