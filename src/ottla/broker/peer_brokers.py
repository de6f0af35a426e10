"""Requests of this broker to others, over the listener that brokers have among themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ottla.env.ports import Env
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.model.config import BrokerConfig
from ottla.wire.build import build, request_type
from ottla.wire.client import ConnectionFailed
from ottla.wire.link import Link


class PeerBrokers:
    """One link to each broker that something is said to. Uses that must not wait for each other have one of these each:
    answers on a connection come in the order of the requests."""

    def __init__(
        self, env: Env, config: Callable[[], BrokerConfig], image: Callable[[], MetadataImage], purpose: str
    ) -> None:
        self._env = env
        self._config = config
        self._image = image
        self._purpose = purpose
        self._links: dict[int, Link] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, broker_id: int, key: int, values: Mapping[str, Any]) -> Any:
        """The answer in the newest version that both know. OttlaError if there was none."""
        link = self._link(broker_id)
        connection = await link.connection()
        version = connection.best_version(key)
        within = self._config().request_timeout_ms / 1000
        return await link.call(build(request_type(key, version), values), within=within)

    def is_reachable(self, broker_id: int) -> bool:
        """Whether the metadata names an address of a broker that is alive."""
        return self._endpoint(broker_id) is not None

    async def stop(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()
        await asyncio.gather(*self._closing)

    def _endpoint(self, broker_id: int) -> Endpoint | None:
        broker = self._image().brokers.get(broker_id)
        return broker.endpoint(self._config().listeners.inter_broker) if broker and not broker.fenced else None

    def _link(self, broker_id: int) -> Link:
        endpoint = self._endpoint(broker_id)
        if endpoint is None:
            raise ConnectionFailed(f"broker {broker_id} is not alive, or has no listener for other brokers")
        link = self._links.get(broker_id)
        if link is not None and (link.host, link.port) != (endpoint.host, endpoint.port):
            closing = self._env.loop.create_task(link.close(), name="close a connection to a broker that has moved")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            link = None
        if link is None:
            client_id = f"broker-{self._config().node_id}-{self._purpose}"
            link = self._links[broker_id] = Link(
                self._env, endpoint.host, endpoint.port, client_id, negotiates=True
            )  # fmt: skip
        return link
