"""ControllerRegistration (key 70): where a controller is found and what it can do (KIP-919)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_apis.broker_calls import ask_controller, endpoints, features
from ottla.metadata.controller.requests import RegisterController
from ottla.metadata.controller.result import NO_ERROR, ApiError


async def handle(context: Context, request: Any) -> Any:
    registration = RegisterController(
        request.controller_id, request.incarnation_id, endpoints(request.listeners), features(request.features)
    )
    outcome: ApiError | None = await ask_controller(context, registration)
    error = NO_ERROR if outcome is None else outcome
    return context.respond(throttle_time=timedelta(0), error_code=error.code, error_message=error.message)
