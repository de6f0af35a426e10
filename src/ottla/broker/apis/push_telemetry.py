"""PushTelemetry (key 72): a client's metrics, in OpenTelemetry's form (KIP-714)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context


async def handle(context: Context, request: Any) -> Any:
    code = await context.node.telemetry.push(context, request)
    return context.respond(throttle_time=timedelta(0), error_code=code)
