"""UpdateFeatures (key 57): other levels for the cluster's features, through the controller (KIP-584).

Versions: 0 says whether a downgrade is allowed, 1 which kind of one, and can check only (KIP-778); 2 tells no more
about each feature on its own: either all are updated or none.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.metadata.controller.requests import FeatureUpdate, UpdateFeatures, UpgradeType
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_TYPES: Final = {kind.value: kind for kind in UpgradeType}


async def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return _answer(context, ApiError(ErrorCode.cluster_authorization_failed), [])
    updates = tuple(
        FeatureUpdate(row.feature, row.max_version_level, _type(context, row)) for row in request.feature_updates
    )
    validate_only = context.version >= 1 and request.validate_only
    # no time is no reason to refuse: Kafka does not look at it either
    within = max(request.timeout, timedelta(milliseconds=context.node.config.request_timeout_ms))
    outcome = await call_controller(context, UpdateFeatures(updates, validate_only), within)
    if isinstance(outcome, ApiError):
        return _answer(context, outcome, [])
    return _answer(context, NO_ERROR, list(dict.fromkeys(update.name for update in updates)))


def _type(context: Context, row: Any) -> UpgradeType:
    if context.version == 0:
        return UpgradeType.SAFE_DOWNGRADE if row.allow_downgrade else UpgradeType.UPGRADE
    return _TYPES.get(row.upgrade_type, UpgradeType.UNKNOWN)


def _answer(context: Context, error: ApiError, updated: list[str]) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=error.code,
        error_message=error.message,
        results=[{"feature": name, "error_code": ErrorCode.none, "error_message": "NONE"} for name in updated],
    )
