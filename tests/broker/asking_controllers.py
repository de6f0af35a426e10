"""Questions to the controller's listener of a node of a cluster, over a socket."""

from __future__ import annotations

from typing import Any

from ottla.testing.cluster import Cluster
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection


def ask_controller(cluster: Cluster, i: int, api: int, version: int, **values: Any) -> Any:
    async def ask() -> Any:
        env = cluster.nodes[i].env
        async with await Connection.open(env, "127.0.0.1", cluster.controller_ports[i]) as connection:
            return await connection.call(build(request_type(api, version), values))

    return cluster.run(ask())
