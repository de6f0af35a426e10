"""PushTelemetry (key 72): a client's metrics, in OpenTelemetry's form (KIP-714)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Api, Context


async def handle(context: Context, request: Any) -> Any:
    code = await context.node.telemetry.push(context, request)
    return context.respond(throttle_time=timedelta(0), error_code=code)


API: Final = Api(
    72, "PushTelemetry", oldest=0, newest=0, handle=handle, is_offered=lambda node: node.telemetry.is_offered
)
