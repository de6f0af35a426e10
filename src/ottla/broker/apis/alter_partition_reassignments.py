"""AlterPartitionReassignments (key 45): other replicas for partitions, or calls that off (KIP-455).

Versions: 1 can demand that the number of replicas stays as it is (KIP-860).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.metadata.controller.requests import AlterPartitionReassignments, PartitionErrors, Reassignment
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


async def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _refusal(context, request, ApiError(ErrorCode.cluster_authorization_failed))
    may_change = context.version < 1 or request.allow_replication_factor_change
    wanted = tuple((topic.name, tuple(map(_wanted, topic.partitions))) for topic in request.topics)
    outcome = await call_controller(context, AlterPartitionReassignments(wanted, may_change), request.timeout)
    if isinstance(outcome, ApiError):
        return _refusal(context, request, outcome)
    return _answer(context, request, NO_ERROR, outcome)


def _wanted(row: Any) -> Reassignment:
    return Reassignment(row.partition_index, None if row.replicas is None else tuple(row.replicas))


def _refusal(context: Context, request: Any, error: ApiError) -> Any:
    outcomes = tuple(
        (topic.name, tuple((row.partition_index, error) for row in topic.partitions)) for topic in request.topics
    )
    return _answer(context, request, error, outcomes)


def _answer(context: Context, request: Any, error: ApiError, outcomes: PartitionErrors) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        allow_replication_factor_change=getattr(request, "allow_replication_factor_change", True),
        error_code=error.code,
        error_message=error.message,
        responses=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": number, "error_code": outcome.code, "error_message": outcome.message}
                    for number, outcome in partitions
                ],
            }
            for name, partitions in outcomes
        ],
    )
