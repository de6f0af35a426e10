"""JoinGroup (key 11): a member comes into a group; the answer comes when all have, or the time is up.

Versions: 1 has a rebalance timeout (0 takes the session's), 4 gives a new member an id to come back with (KIP-394), 5
knows instance ids (KIP-345), 6 is flexible, 7 tells the protocol type, 8 takes a reason, 9 lets a leader skip the
assignment (KIP-814).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import answer_of, ask, client_of, heard, milliseconds
from ottla.coordinator.group.classic.requests import JoinAnswer, JoinRequest, Protocol
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource

_HAS_REBALANCE_TIMEOUT: Final = 1
_TAKES_ID_FIRST: Final = 4
_HAS_INSTANCE: Final = 5
_NULLABLE_NAME: Final = 7
_HAS_REASON: Final = 8
_CAN_SKIP: Final = 9


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        return _respond(context, JoinAnswer(ErrorCode.group_authorization_failed))
    if not request.group_id:
        return _respond(context, JoinAnswer(ErrorCode.invalid_group_id, request.member_id))
    config = context.node.config
    session_ms = milliseconds(request.session_timeout)
    shortest = config.get_int("group.min.session.timeout.ms")
    if not shortest <= session_ms <= config.get_int("group.max.session.timeout.ms"):
        return _respond(context, JoinAnswer(ErrorCode.invalid_session_timeout, request.member_id))
    version = context.version
    join = JoinRequest(
        request.group_id,
        request.member_id,
        request.group_instance_id if version >= _HAS_INSTANCE else None,
        client_of(context),
        request.protocol_type,
        tuple(Protocol(protocol.name, protocol.metadata) for protocol in request.protocols),
        session_ms,
        milliseconds(request.rebalance_timeout) if version >= _HAS_REBALANCE_TIMEOUT else session_ms,
        version >= _TAKES_ID_FIRST,
        version >= _CAN_SKIP,
        request.reason if version >= _HAS_REASON else None,
    )
    told: asyncio.Future[JoinAnswer] = ask(
        context, join.group_id, lambda machine, answer: machine.members.join(join, answer)
    )
    if join.member_id:
        heard(context, join.group_id, join.member_id)
    return Waiting(told, lambda told: _answer(context, join.group_id, answer_of(told, JoinAnswer)))


def _answer(context: Context, group_id: str, answer: JoinAnswer) -> Any:
    if answer.error is ErrorCode.none:  # one who comes for the first time has its id only now
        heard(context, group_id, answer.member_id)
    return _respond(context, answer)


def _respond(context: Context, answer: JoinAnswer) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name or (None if context.version >= _NULLABLE_NAME else ""),
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            {"member_id": member.member_id, "group_instance_id": member.instance_id, "metadata": member.metadata}
            for member in answer.members
        ],
    )
