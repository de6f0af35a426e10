"""UnregisterBroker (key 64): a broker that will not come back leaves the cluster, through the controller (KIP-500)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.metadata.controller.requests import UnregisterBroker
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


async def handle(context: Context, request: Any) -> Any:
    error = ApiError(ErrorCode.cluster_authorization_failed)
    if context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        within = timedelta(milliseconds=context.node.config.request_timeout_ms)
        outcome: ApiError | None = await call_controller(context, UnregisterBroker(request.broker_id), within)
        error = NO_ERROR if outcome is None else outcome
    return context.respond(throttle_time=timedelta(0), error_code=error.code, error_message=error.message)
