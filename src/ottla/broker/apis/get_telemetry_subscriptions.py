"""GetTelemetrySubscriptions (key 71): a client asks which of its metrics are wanted here, and how often (KIP-714)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.telemetry.subscriptions import COMPRESSIONS
from ottla.model.errors import ErrorCode


def handle(context: Context, request: Any) -> Any:
    wanted = context.node.telemetry.ask(context, request)
    if isinstance(wanted, ErrorCode):
        return context.respond(
            throttle_time=timedelta(0),
            error_code=wanted,
            client_instance_id=None,
            subscription_id=0,
            accepted_compression_types=[],
            push_interval=timedelta(0),
            telemetry_max_bytes=0,
            delta_temporality=False,
            requested_metrics=[],
        )
    return context.respond(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        client_instance_id=wanted.instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=list(COMPRESSIONS),
        push_interval=timedelta(milliseconds=wanted.interval_ms),
        telemetry_max_bytes=context.node.config.get_int("telemetry.max.bytes"),
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )
