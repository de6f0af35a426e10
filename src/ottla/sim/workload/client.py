"""One client's way to the node: a connection that is made again when it is lost, and requests by name and version."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.env.ports import Env
from ottla.model.errors import ErrorCode
from ottla.sim.history import History
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection, ConnectionFailed, RequestTimedOut

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 19, 20, 22
METADATA_VERSION: Final = 12
ANSWER_WITHIN_S: Final = 4.0
CONNECT_WITHIN_S: Final = 2.0


class NoAnswer(Exception):
    """The request may or may not have been carried out."""


class SimConnection(Connection):
    """Knows which life of the node it leads to."""

    life = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.life = transport.get_extra_info("life")


class KnownTopic(NamedTuple):
    name: str
    id: UUID
    partitions: int


class Client:
    def __init__(self, name: str, env: Env, random: Random, history: History, node: tuple[str, int]) -> None:
        self.name = name
        self.env = env
        self.random = random
        self.history = history
        self.stopping = False
        self._node = node
        self._connection: SimConnection | None = None

    async def connection(self) -> SimConnection:
        """The one that is open, or a new one, however long that takes."""
        while self._connection is None or self._connection.is_closed:
            try:
                self._connection = await SimConnection.open(self.env, *self._node, self.name, within=CONNECT_WITHIN_S)
            except ConnectionFailed:
                await self.pause(0.05, 0.3)
        return self._connection

    def drop(self) -> None:
        """After a request that was not answered in time, answers would be taken for others."""
        if self._connection is not None:
            self._connection.abort()
        self._connection = None

    async def pause(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self.random.uniform(shortest_s, longest_s))

    async def ask(
        self, key: int, version: int, values: Mapping[str, Any], *, on: SimConnection | None = None
    ) -> tuple[Any, int]:
        """The answer, and the life of the node that gave it; NoAnswer if none came."""
        connection = on or await self.connection()
        try:
            answer = await connection.call(build(request_type(key, version), values), within=ANSWER_WITHIN_S)
        except (ConnectionFailed, RequestTimedOut) as error:
            if connection is self._connection:
                self.drop()
            raise NoAnswer(str(error)) from error
        return answer, connection.life

    async def topics(self, *names: str) -> dict[str, KnownTopic]:
        """Those of the topics that exist; all that exist if none is named."""
        wanted = [{"name": name, "topic_id": None} for name in names] if names else None
        request = {
            "topics": wanted,
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        answer, _ = await self.ask(METADATA, METADATA_VERSION, request)
        return {
            topic.name: KnownTopic(topic.name, topic.topic_id, len(topic.partitions))
            for topic in answer.topics
            if topic.error_code is ErrorCode.none
        }
