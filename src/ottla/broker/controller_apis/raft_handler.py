"""What the APIs of the quorum have in common: the request goes to this node's replica, and its answer back."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.broker.context import Context, Handler, Waiting
from ottla.model.errors import ErrorCode
from ottla.raft import rpc
from ottla.raft.messages import ChangeVotersResponse, Request, Response
from ottla.raft.rpc_versions import downgraded, upgraded
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource
from ottla.wire.build import fitting

_MESSAGES: Final = {
    ErrorCode.not_leader_or_follower: "For requests intended only for the leader, this error indicates that the broker "
    "is not the current leader. For requests intended for any replica, this error indicates that the broker is not a "
    "replica of the topic partition.",
    ErrorCode.request_timed_out: "The request timed out.",
    ErrorCode.broker_not_available: "The broker is not available.",
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.inconsistent_cluster_id: "The clusterId in the request does not match that found on the server.",
}


def raft_handler(key: int, operation: Operation = Operation.CLUSTER_ACTION) -> Handler:
    def handle(context: Context, entity: Any) -> Any:
        if not context.allowed(operation, Resource.CLUSTER, CLUSTER_NAME):
            return _answer(context, key, rpc.refusal(key, ErrorCode.cluster_authorization_failed))
        if context.refusal is not None:
            return _answer(context, key, ChangeVotersResponse(*context.refusal))  # the others are not passed on
        try:
            request: Request = rpc.request_of(upgraded(entity))
        except rpc.WrongPartition:
            return _answer(context, key, rpc.refusal(key, ErrorCode.invalid_request))

        def answer(told: asyncio.Future[Response]) -> Any:
            return _answer(context, key, told.result())

        return Waiting(context.node.raft.handle(request), answer)

    return handle


def _answer(context: Context, key: int, response: Response) -> Any:
    if isinstance(response, ChangeVotersResponse):
        message = response.message or _MESSAGES.get(response.error)
        response = ChangeVotersResponse(response.error, None if message is None else fitting(message))
    return downgraded(rpc.response_entity(response, context.listener, key), context.version)
