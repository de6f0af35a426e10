"""BrokerRegistration (key 62): a broker is here, or here again; it gets an epoch (KIP-631).

Versions: 1 says whether the broker migrates from ZooKeeper (none does), 2 names its log dirs (KIP-858), 3 the epoch
that it had when it last stopped cleanly (KIP-966), 4 may offer features from level 0 on.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_apis.broker_calls import ask_controller, endpoints, features
from ottla.metadata.controller.requests import RegisterBroker
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode


async def handle(context: Context, request: Any) -> Any:
    if getattr(request, "is_migrating_zk_broker", False):
        return _answer(context, ErrorCode.broker_id_not_registered)
    registration = RegisterBroker(
        request.broker_id,
        request.cluster_id,
        request.incarnation_id,
        endpoints(request.listeners),
        features(request.features),
        tuple(getattr(request, "log_dirs", ())),
        request.rack,
        previous_broker_epoch=getattr(request, "previous_broker_epoch", -1),
        is_remote=True,
    )
    outcome = await ask_controller(context, registration)
    if _is_duplicate(outcome) and await _is_next_life(context, registration):
        outcome = await ask_controller(context, registration)
    if isinstance(outcome, ApiError):
        return _answer(context, outcome.code)
    return _answer(context, ErrorCode.none, outcome)


def _is_duplicate(outcome: int | ApiError) -> bool:
    return isinstance(outcome, ApiError) and outcome.code is ErrorCode.duplicate_broker_registration


async def _is_next_life(context: Context, registration: RegisterBroker) -> bool:
    """Kafka has every broker wait for the session of its former self. One whose process is gone needs none."""
    listener = context.node.controller_listener
    detector = None if listener is None else listener.failure_detector
    return detector is not None and await detector.is_succeeded_by(registration)


def _answer(context: Context, code: ErrorCode, epoch: int = -1) -> Any:
    return context.respond(throttle_time=timedelta(0), error_code=code, broker_epoch=epoch)
