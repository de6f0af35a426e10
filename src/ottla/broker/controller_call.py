"""A client's request to the controller: within the time that the client gives, and with errors as values."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final, TypeVar

from ottla.broker.context import Context
from ottla.metadata.controller.requests import Request
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode, KafkaError

R = TypeVar("R")
_TIMED_OUT: Final = ApiError(ErrorCode.request_timed_out)


async def call_controller(context: Context, request: Request[R], within: timedelta) -> R | ApiError:
    """A request that times out may still take effect, unless there was no time to begin with."""
    if context.refusal is not None:
        return context.refusal
    if within <= timedelta(0):
        return _TIMED_OUT
    try:
        async with asyncio.timeout(within.total_seconds()):
            return await context.node.local_controller.submit(request)
    except TimeoutError:
        return _TIMED_OUT
    except KafkaError as error:
        return ApiError(error.code, error.message)


def refusal(context: Context) -> ApiError | None:
    """For what only the active controller may answer, though it need not ask anyone: why it cannot be answered here."""
    if context.refusal is None and not context.node.local_controller.is_active:
        return ApiError(ErrorCode.not_controller, "this node is not the active controller")
    return context.refusal
