"""DescribeCluster (key 60): the cluster's id and its brokers (KIP-700).

Versions: 1 says whether brokers or controllers are asked for (KIP-919), 2 can include brokers that are fenced.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from ottla.broker.brokers import NO_BROKER, any_controller, brokers_on
from ottla.broker.context import Context
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, CLUSTER_OPERATIONS, Operation, Resource, allowed_bits

BROKERS: Final = 1
CONTROLLERS: Final = 2
_NAMES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def handle(context: Context, request: Any) -> Any:
    node = context.node
    fenced = node.image.brokers if context.version >= 2 and request.include_fenced_brokers else ()

    def brokers() -> list[dict[str, Any]]:
        return [
            {
                "broker_id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "is_fenced": broker.is_fenced,
            }
            for broker in brokers_on(node.image, context.listener, fenced)
        ]

    return describe(context, request, BROKERS, brokers, lambda: any_controller(node.image, node.env.random))


def describe(
    context: Context,
    request: Any,
    kind: int,
    nodes: Callable[[], list[dict[str, Any]]],
    controller: Callable[[], int],
) -> Any:
    """The answer of an endpoint of one kind; a controller that is not among the nodes is told as -1."""
    wanted = request.endpoint_type if context.version >= 1 else BROKERS
    if wanted not in _NAMES:
        code = ErrorCode.invalid_request if context.version == 0 else ErrorCode.unsupported_endpoint_type
        return refusal(context, code, f"Unsupported endpoint type {wanted}")
    if wanted != kind:
        code = ErrorCode.invalid_request if context.version == 0 else ErrorCode.mismatched_endpoint_type
        message = (
            f"The request was sent to an endpoint of type {_NAMES[kind]}, but we wanted an endpoint of type "
            f"{_NAMES[wanted]}"
        )
        return refusal(context, code, message)
    operations = {}
    if request.include_cluster_authorized_operations:
        authorizer = context.node.authorizer
        operations["cluster_authorized_operations"] = (
            allowed_bits(authorizer, context.principal, CLUSTER_OPERATIONS, Resource.CLUSTER, CLUSTER_NAME)
            if context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
            else 0
        )
    rows, controller_id = nodes(), controller()
    return context.respond(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=kind,
        cluster_id=context.node.cluster_id,
        controller_id=controller_id if any(row["broker_id"] == controller_id for row in rows) else NO_BROKER,
        brokers=rows,
        **operations,
    )


def refusal(context: Context, code: ErrorCode, message: str | None) -> Any:
    return context.respond(
        throttle_time=timedelta(0), error_code=code, error_message=message, cluster_id="", brokers=[]
    )
