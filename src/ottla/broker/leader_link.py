"""The way from a follower to a leader: where the metadata says that it listens for other brokers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ottla.env.ports import Env
from ottla.log.epochs import EpochEnd, EpochStart
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection, ConnectionFailed
from ottla.wire.link import Link

_LIST_OFFSETS, _VERSION, _WITH_PENDING = 2, 9, 11
_EARLIEST, _LATEST, _EARLIEST_LOCAL, _EARLIEST_PENDING_UPLOAD = -2, -1, -4, -6
_EPOCH_ENDS, _EPOCH_ENDS_VERSION = 23, 4


class LeaderLink:
    def __init__(
        self,
        env: Env,
        broker_id: int,
        client_id: str,
        image: Callable[[], MetadataImage],
        config: Callable[[], BrokerConfig],
    ) -> None:
        self.broker_id = broker_id
        self._env = env
        self._client_id = client_id
        self._image = image
        self._config = config
        self._link: Link | None = None

    async def connection(self) -> Connection:
        return await (await self._current()).connection()

    async def _current(self) -> Link:
        endpoint = self._endpoint()
        link = self._link
        if link is None or (link.host, link.port) != (endpoint.host, endpoint.port):
            if link is not None:
                await link.close()
            link = self._link = Link(
                self._env,
                endpoint.host,
                endpoint.port,
                self._client_id,
                connect_within=self._config().get_int("replica.socket.timeout.ms") / 1000,
            )
        return link

    def _endpoint(self) -> Endpoint:
        broker = self._image().brokers.get(self.broker_id)
        listener = self._config().listeners.inter_broker
        endpoint = broker.endpoint(listener) if broker is not None else None
        if endpoint is None:
            raise ConnectionFailed(f"broker {self.broker_id} has no listener {listener} in the metadata")
        return endpoint

    async def list_offset(self, partition: Partition, leader_epoch: int, *, earliest: bool) -> int:
        return int((await self._ask(partition, leader_epoch, _EARLIEST if earliest else _LATEST)).offset)

    async def earliest_local(self, partition: Partition, leader_epoch: int) -> EpochStart:
        found = await self._ask(partition, leader_epoch, _EARLIEST_LOCAL)
        return EpochStart(found.leader_epoch, found.offset)

    async def pending_upload(self, partition: Partition, leader_epoch: int) -> EpochStart | None:
        found = await self._ask(partition, leader_epoch, _EARLIEST_PENDING_UPLOAD)
        return EpochStart(found.leader_epoch, found.offset) if found.offset >= 0 else None

    async def end_of_epoch(self, partition: Partition, leader_epoch: int, epoch: int) -> EpochEnd:
        row = {"partition": partition.key.partition, "current_leader_epoch": leader_epoch, "leader_epoch": epoch}
        ask = build(
            request_type(_EPOCH_ENDS, _EPOCH_ENDS_VERSION),
            {"replica_id": self._config().node_id, "topics": [{"topic": partition.key.topic, "partitions": [row]}]},
        )
        answer = await (await self._current()).call(ask, within=self._patience)
        found = answer.topics[0].partitions[0]
        if found.error_code != ErrorCode.none:
            raise KafkaError(found.error_code)
        return EpochEnd(found.leader_epoch, found.end_offset)

    async def _ask(self, partition: Partition, leader_epoch: int, timestamp: int) -> Any:
        row = {
            "partition_index": partition.key.partition,
            "current_leader_epoch": leader_epoch,
            "timestamp": timestamp,
        }
        ask = build(
            request_type(_LIST_OFFSETS, _WITH_PENDING if timestamp == _EARLIEST_PENDING_UPLOAD else _VERSION),
            {
                "replica_id": self._config().node_id,
                "isolation_level": 0,
                "timeout": timedelta(seconds=self._patience),
                "topics": [{"name": partition.key.topic, "partitions": [row]}],
            },
        )
        answer = await (await self._current()).call(ask, within=self._patience)
        found = answer.topics[0].partitions[0]
        if found.error_code != ErrorCode.none:
            raise KafkaError(found.error_code)
        return found

    @property
    def _patience(self) -> float:
        return self._config().get_int("replica.socket.timeout.ms") / 1000

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()
