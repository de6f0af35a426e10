"""What brokers and controllers ask of the active controller: only those who may act for the cluster may."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from ottla.broker.context import Context
from ottla.metadata.controller.requests import Request
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import Endpoint, VersionRange
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

R = TypeVar("R")
_NOT_ALLOWED: Final = ApiError(ErrorCode.cluster_authorization_failed)


def may_act(context: Context) -> bool:
    return context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)


async def ask_controller(context: Context, request: Request[R]) -> R | ApiError:
    """The reply once it is committed. There is no limit of time: a controller that cannot commit resigns."""
    if not may_act(context):
        return _NOT_ALLOWED
    try:
        return await context.node.local_controller.submit(request)
    except KafkaError as error:
        return ApiError(error.code, error.message)


def endpoints(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in listeners)


def features(offered: Iterable[Any]) -> tuple[tuple[str, VersionRange], ...]:
    return tuple(
        (feature.name, VersionRange(feature.min_supported_version, feature.max_supported_version))
        for feature in offered
    )
