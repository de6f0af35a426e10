"""AllocateProducerIds (key 67): a block of producer ids for one broker alone (KIP-730)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_apis.broker_calls import ask_controller
from ottla.metadata.controller.requests import AllocateProducerIds
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode


async def handle(context: Context, request: Any) -> Any:
    outcome = await ask_controller(context, AllocateProducerIds(request.broker_id, request.broker_epoch))
    error, (first, size) = (
        (outcome.code, (0, 0)) if isinstance(outcome, ApiError) else (ErrorCode.none, (outcome.first, outcome.size))
    )
    return context.respond(throttle_time=timedelta(0), error_code=error, producer_id_start=first, producer_id_len=size)
