"""BrokerHeartbeat (key 63): a broker lives, knows the metadata so far, and wants to be fenced, unfenced or gone.

Versions: 1 names log dirs that have failed (KIP-858), 2 those that get no new partitions (KIP-1066).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.controller_apis.broker_calls import ask_controller, may_act
from ottla.metadata.controller.requests import BrokerHeartbeat, HeartbeatReply
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode

_NOTHING: Final = HeartbeatReply(
    is_caught_up=False, is_fenced=True, should_shut_down=False
)  # as in an error of Kafka's


async def handle(context: Context, request: Any) -> Any:
    cordoned = getattr(request, "cordoned_log_dirs", None)
    heartbeat = BrokerHeartbeat(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        request.want_fence,
        request.want_shut_down,
        tuple(getattr(request, "offline_log_dirs", ())),
        None if cordoned is None else tuple(cordoned),
    )
    listener = context.node.controller_listener
    detector = None if listener is None or not may_act(context) else listener.failure_detector
    if detector is not None:
        detector.heard(context.connection, heartbeat.broker_id, heartbeat.broker_epoch)
    outcome = await ask_controller(context, heartbeat)
    if detector is not None and not isinstance(outcome, ApiError) and outcome.should_shut_down:
        detector.let_go(heartbeat.broker_id)
    reply, error = (_NOTHING, outcome.code) if isinstance(outcome, ApiError) else (outcome, ErrorCode.none)
    return context.respond(
        throttle_time=timedelta(0),
        error_code=error,
        is_caught_up=reply.is_caught_up,
        is_fenced=reply.is_fenced,
        should_shut_down=reply.should_shut_down,
    )
