"""DescribeCluster (key 60): the cluster's id and its brokers (KIP-700).

Versions: 1 says whether brokers or controllers are asked for (KIP-919), 2 can include brokers that are fenced.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.brokers import NO_BROKER, any_controller, brokers_on
from ottla.broker.context import Api, Context
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, CLUSTER_OPERATIONS, Operation, Resource, allowed_bits

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(context: Context, request: Any) -> Any:
    node = context.node
    endpoint_type = request.endpoint_type if context.version >= 1 else _BROKERS
    if endpoint_type == _CONTROLLERS:
        return _refusal(
            context, ErrorCode.mismatched_endpoint_type, "this is a broker's listener, controllers are not told here"
        )
    if endpoint_type != _BROKERS:
        return _refusal(
            context,
            ErrorCode.unsupported_endpoint_type,
            f"there is no endpoint type {endpoint_type}: 1 asks for brokers",
        )
    operations = {}
    if request.include_cluster_authorized_operations:
        operations["cluster_authorized_operations"] = (
            allowed_bits(node.authorizer, context.principal, CLUSTER_OPERATIONS, Resource.CLUSTER, CLUSTER_NAME)
            if context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
            else 0
        )
    image = node.image
    fenced_too = context.version >= 2 and request.include_fenced_brokers
    brokers = brokers_on(image, context.listener, fenced_too=fenced_too)
    controller = any_controller(image, node.env.random)
    return context.respond(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=_BROKERS,
        cluster_id=node.cluster_id,
        controller_id=controller if any(broker.id == controller for broker in brokers) else NO_BROKER,
        brokers=[
            {
                "broker_id": broker.id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "is_fenced": broker.is_fenced,
            }
            for broker in brokers
        ],
        **operations,
    )


def _refusal(context: Context, code: ErrorCode, message: str) -> Any:
    return context.respond(
        throttle_time=timedelta(0), error_code=code, error_message=message, cluster_id="", brokers=[]
    )


API: Final = Api(60, "DescribeCluster", oldest=0, newest=2, handle=handle)
