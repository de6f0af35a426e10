"""One client of a cluster: learns from Metadata who leads what, and keeps a connection to each broker it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.env.ports import Env
from ottla.model.errors import ErrorCode
from ottla.sim.cluster.oracle import NOBODY, Oracle
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import METADATA, METADATA_VERSION, KnownTopic, NoAnswer
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection, ConnectionFailed, RequestTimedOut

ANSWER_WITHIN_S: Final = 4.0
CONNECT_WITHIN_S: Final = 1.0
Address = tuple[str, int]

LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.replica_not_available,
        ErrorCode.offset_not_available,
    }
)
"""Errors after which a client asks for the metadata again; a topic that was just made is not known everywhere."""


class Leader(NamedTuple):
    id: int = NOBODY
    epoch: int = -1


class ClusterClient:
    def __init__(self, name: str, env: Env, random: Random, oracle: Oracle, bootstrap: Sequence[Address]) -> None:
        self.name = name
        self.env = env
        self.random = random
        self.oracle = oracle
        self.stopping = False
        self.leaders: dict[PartitionId, Leader] = {}
        self._bootstrap = bootstrap
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._refreshing: asyncio.Future[None] | None = None

    async def pause(self, shortest_s: float, longest_s: float) -> None:
        await asyncio.sleep(self.random.uniform(shortest_s, longest_s))

    # -- asking

    async def ask(self, broker: int, key: int, version: int, values: Mapping[str, Any]) -> Any:
        """NoAnswer if there was none: the request may or may not have been carried out."""
        address = self._brokers.get(broker)
        if address is None:
            raise NoAnswer(f"broker {broker} is not known")
        return await self._ask(address, key, version, values)

    async def ask_any(self, key: int, version: int, values: Mapping[str, Any]) -> Any:
        return await self._ask(self.random.choice(self._known()), key, version, values)

    async def _ask(self, address: Address, key: int, version: int, values: Mapping[str, Any]) -> Any:
        connection = await self.connection(address)
        try:
            return await connection.call(build(request_type(key, version), values), within=ANSWER_WITHIN_S)
        except (ConnectionFailed, RequestTimedOut) as error:
            self._drop(address, connection)
            raise NoAnswer(str(error)) from error

    async def ask_by_hand(self, broker: int, key: int, version: int, body: bytes) -> memoryview:
        """As `ask`, with bodies that nobody encodes or decodes here."""
        address = self._brokers.get(broker)
        if address is None:
            raise NoAnswer(f"broker {broker} is not known")
        connection = await self.connection(address)
        try:
            return await connection.send_bytes(key, version, (body,), within=ANSWER_WITHIN_S)
        except (ConnectionFailed, RequestTimedOut) as error:
            self._drop(address, connection)
            raise NoAnswer(str(error)) from error

    async def send_unanswered(self, broker: int, key: int, version: int, body: bytes) -> None:
        address = self._brokers.get(broker)
        if address is not None:
            connection = await self.connection(address)
            try:
                async with asyncio.timeout(ANSWER_WITHIN_S):
                    await connection.send_unanswered(key, version, (body,))
            except (ConnectionFailed, TimeoutError):
                self._drop(address, connection)

    async def connection(self, address: Address) -> Connection:
        known = self._connections.get(address)
        if known is None or known.is_closed:
            try:
                known = await Connection.open(self.env, *address, self.name, within=CONNECT_WITHIN_S)
            except ConnectionFailed as error:
                raise NoAnswer(str(error)) from error
            self._connections[address] = known
        return known

    def _drop(self, address: Address, connection: Connection) -> None:
        """After a request that was not answered in time, answers would be taken for others."""
        if self._connections.get(address) is connection:
            del self._connections[address]
        connection.abort()

    def _known(self) -> list[Address]:
        return list(self._brokers.values()) or list(self._bootstrap)

    # -- who leads

    async def refresh(self) -> None:
        """Asks for the metadata, once for all who want to know at a time. If nobody answers, what was known stays."""
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh())
        await asyncio.shield(self._refreshing)

    async def _refresh(self) -> None:
        try:
            await self.topics()
        except NoAnswer:
            await self.pause(0.02, 0.2)
            if self.random.random() < 0.2:
                self._brokers.clear()  # as KIP-899: all may have moved
        finally:
            self._refreshing = None

    async def topics(self) -> dict[str, KnownTopic]:
        request = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
        answer = await self.ask_any(METADATA, METADATA_VERSION, request)
        self._brokers |= {int(broker.node_id): (broker.host, broker.port) for broker in answer.brokers}
        found: dict[str, KnownTopic] = {}
        for topic in answer.topics:
            if topic.error_code is ErrorCode.none:
                found[topic.name] = KnownTopic(topic.name, topic.topic_id, len(topic.partitions))
                self._take(topic.topic_id, topic.partitions)
        return found

    def _take(self, topic_id: UUID, rows: Sequence[Any]) -> None:
        for row in rows:
            key, leader = PartitionId(topic_id, row.partition_index), Leader(int(row.leader_id), row.leader_epoch)
            if leader.epoch >= self.leaders.get(key, Leader()).epoch:  # a broker that is behind tells old things
                self.leaders[key] = leader

    def learn(self, broker: int, address: Address) -> None:
        """Where a broker is, as another answer than that to Metadata says."""
        self._brokers[broker] = address

    def by_leader(self, partitions: Sequence[PartitionId]) -> dict[int, list[PartitionId]]:
        grouped: dict[int, list[PartitionId]] = {}
        for key in partitions:
            grouped.setdefault(self.leaders.get(key, Leader()).id, []).append(key)
        return grouped
