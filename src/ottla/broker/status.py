"""The listener for those who watch a node: metrics, and whether it lives and serves."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from ottla.broker.node_state import NodeState
from ottla.env.metrics_text import CONTENT_TYPE, as_text
from ottla.env.ports import Env, Listener
from ottla.model.errors import OttlaError
from ottla.wire.http import Answer, HttpRoutes

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.broker")
_JSON: Final = "application/json"


class StatusListener:
    """Opens before anything else, so that a node that takes long to start can say so."""

    def __init__(self, env: Env, node: Node) -> None:
        self._env = env
        self._node = node
        self._listener: Listener | None = None
        self._served = HttpRoutes({"/metrics": self._metrics, "/health/live": self._live, "/health/ready": self._ready})

    @property
    def address(self) -> str | None:
        """Where it listens, or None if it does not."""
        listener = self._listener
        return None if listener is None else f"{_in_url(listener.host)}:{listener.port}"

    async def open(self, host: str, port: int) -> None:
        try:
            self._listener = await self._env.network.listen(self._served, host, port)
        except OSError as error:
            raise OttlaError(
                f"cannot listen on {host}:{port} for metrics: {error.strerror or error}. Give another address in "
                "ottla.metrics.listener, or port 0 for any."
            ) from error
        await self._listener.serve()
        _log.info("metrics and health: http://%s/metrics, /health/live, /health/ready", self.address)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        self._served.close()

    async def _metrics(self) -> Answer:
        metrics = self._env.metrics
        await self._env.executor.blocking(metrics.refresh)
        return Answer(HTTPStatus.OK, CONTENT_TYPE, as_text(metrics.gather(), self._env.clock))

    async def _live(self) -> Answer:
        """That there is an answer says that the loop turns."""
        return self._told(ok=not self._node.has_failed)

    async def _ready(self) -> Answer:
        node = self._node
        return self._told(ok=node.state is NodeState.RUNNING and not node.has_failed and node.is_registered)

    def _told(self, *, ok: bool) -> Answer:
        node = self._node
        told = {
            "ok": ok,
            "state": _state_of(node),
            "node_id": node.config.node_id,
            "cluster_id": node.cluster_id or None,
            "offline_log_dirs": node.offline_log_dirs,
        }
        status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(status, _JSON, json.dumps(told).encode() + b"\n")


def _state_of(node: Node) -> str:
    if node.has_failed:
        return "failed"
    if node.state is NodeState.RUNNING and not node.is_registered:
        return "unregistered"
    return node.state.name.lower().replace("_", " ")


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host or "127.0.0.1"
