"""DescribeCluster (key 60) on a controller: the controllers and where they listen, the active one among them (KIP-919).

This is how tools that are given `--bootstrap-controller` find the active one.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.describe_cluster import CONTROLLERS, describe, refusal
from ottla.broker.context import Context
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return refusal(context, ErrorCode.cluster_authorization_failed, None)
    node = context.node

    def controllers() -> list[dict[str, Any]]:
        return [
            {"broker_id": controller.id, "host": end.host, "port": end.port, "rack": None, "is_fenced": False}
            for controller in node.image.controllers.values()
            for end in controller.endpoints
            if end.name == context.listener
        ]

    return describe(context, request, CONTROLLERS, controllers, lambda: node.raft.leader_id)
