"""ElectLeaders (key 43): leadership goes back to preferred replicas, or to any that lives, through the controller.

Versions: 0 knows preferred replicas only and has no error of the whole, 1 has types of elections (KIP-460), 2 is
flexible.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.metadata.controller.requests import ElectionType, ElectLeaders, PartitionErrors, PartitionsOf
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_TYPES: Final = {kind.value: kind for kind in ElectionType}


async def handle(context: Context, request: Any) -> Any:
    asked = request.topic_partitions
    if not context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _refusal(context, asked, ApiError(ErrorCode.cluster_authorization_failed))
    number = request.election_type if context.version >= 1 else ElectionType.PREFERRED
    kind = _TYPES.get(number)
    if kind is None and asked == ():  # nobody looks at it
        return _answer(context, NO_ERROR, ())
    if kind is None:
        return _refusal(context, asked, ApiError(ErrorCode.invalid_request, f"Unknown election type {number}"))
    partitions = None if asked is None else tuple(PartitionsOf(row.topic, tuple(row.partitions)) for row in asked)
    outcome = await call_controller(context, ElectLeaders(kind, partitions), request.timeout)
    if isinstance(outcome, ApiError):
        return _refusal(context, asked, outcome)
    return _answer(context, NO_ERROR, outcome)


def _refusal(context: Context, asked: Any, error: ApiError) -> Any:
    return _answer(
        context, error, tuple((row.topic, tuple((number, error) for number in row.partitions)) for row in asked or ())
    )


def _answer(context: Context, error: ApiError, outcomes: PartitionErrors) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=error.code,
        replica_election_results=[
            {
                "topic": topic,
                "partition_result": [
                    {"partition_id": number, "error_code": outcome.code, "error_message": outcome.message}
                    for number, outcome in partitions
                ],
            }
            for topic, partitions in outcomes
        ],
    )
