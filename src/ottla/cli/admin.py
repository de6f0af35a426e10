"""What the topic commands ask of a cluster, over one connection, by Kafka's own requests.

The versions are fixed: every broker since Kafka 2.8 has them, and asking first would cost a round trip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

from ottla.cli.address import Address, unreachable
from ottla.env.network import TcpNetwork
from ottla.model.errors import ErrorCode, OttlaError
from ottla.wire.client import Connection, ConnectionFailed

if TYPE_CHECKING:
    from ottla.env.ports import Env

T = TypeVar("T")
CONNECT_WITHIN_S: Final = 5.0
TOPIC_RESOURCE: Final[Any] = 2
DYNAMIC_TOPIC_CONFIG: Final = 1


class PartitionInfo(NamedTuple):
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


class TopicInfo(NamedTuple):
    name: str
    id: UUID | None
    internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


class _NetworkOnly:
    """All that a connection asks of its world; a whole one would import the process pool for nothing."""

    network = TcpNetwork()


def run(bootstrap: tuple[Address, ...], ask: Callable[[Admin], Awaitable[T]]) -> T:
    """Connects to the first address that answers and asks there."""

    async def session() -> T:
        connection = await _connect(bootstrap)
        async with connection:
            return await ask(Admin(connection))

    return asyncio.run(session())


async def _connect(bootstrap: tuple[Address, ...]) -> Connection:
    reason = ""
    for address in bootstrap:
        try:
            world = cast("Env", _NetworkOnly())
            return await Connection.open(world, address.host, address.port, "ottla-cli", within=CONNECT_WITHIN_S)
        except ConnectionFailed as error:
            cause = error.__cause__
            reason = _short(cause) if isinstance(cause, OSError) else "no answer in time"
    raise OttlaError(unreachable(bootstrap, reason))


def _short(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):  # asyncio puts the address into strerror
        return "connection refused"
    return error.strerror or str(error)


class Admin:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def topics(self, names: Sequence[str] | None = None) -> list[TopicInfo]:
        """All topics, or the named ones; OttlaError if one of those is not there."""
        from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

        topics = (
            None
            if names is None
            else tuple(MetadataRequestTopic(topic_id=None, name=cast(Any, name)) for name in names)
        )
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = await self._connection.call(request)
        found = []
        for topic in answer.topics:
            _raise_for(topic.error_code, None, f"topic {topic.name}")
            partitions = tuple(
                PartitionInfo(
                    part.partition_index,
                    part.leader_id,
                    part.leader_epoch,
                    part.replica_nodes,
                    part.isr_nodes,
                    part.offline_replicas,
                )
                for part in sorted(topic.partitions, key=lambda part: part.partition_index)
            )
            found.append(TopicInfo(topic.name, topic.topic_id, topic.is_internal, partitions))
        return sorted(found, key=lambda topic: topic.name)

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str], *, check_only: bool
    ) -> TopicInfo:
        """Partitions and replicas of -1 take the broker's defaults. In the answer, leaders are not known yet."""
        from datetime import timedelta

        from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        plain = cast(Any, (name, partitions, replication_factor, timedelta(seconds=30)))
        request = CreateTopicsRequest(
            topics=(
                CreatableTopic(
                    name=plain[0],
                    num_partitions=plain[1],
                    replication_factor=plain[2],
                    assignments=(),
                    configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
                ),
            ),
            timeout=plain[3],
            validate_only=check_only,
        )
        answer = await self._connection.call(request)
        (topic,) = answer.topics
        _raise_for(topic.error_code, topic.error_message, f"cannot create topic {name}")
        replicas = tuple(range(max(topic.replication_factor, 0)))
        made = tuple(PartitionInfo(i, -1, -1, replicas, (), ()) for i in range(max(topic.num_partitions, 0)))
        return TopicInfo(topic.name, topic.topic_id, False, made)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, str | None]:
        """For each name None, or why it could not be deleted."""
        from datetime import timedelta

        from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

        states = tuple(DeleteTopicState(name=cast(Any, name), topic_id=None) for name in names)
        request = DeleteTopicsRequest(topics=states, timeout=cast(Any, timedelta(seconds=30)))
        answer = await self._connection.call(request)
        return {
            topic.name: None if topic.error_code is ErrorCode.none else _told(topic.error_code, topic.error_message)
            for topic in answer.responses
        }

    async def topic_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """What was set on each topic itself."""
        from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

        resources = tuple(
            DescribeConfigsResource(
                resource_type=cast(Any, TOPIC_RESOURCE), resource_name=name, configuration_keys=None
            )
            for name in names
        )
        answer = await self._connection.call(
            DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
        )
        found: dict[str, dict[str, str]] = {}
        for result in answer.results:
            _raise_for(result.error_code, result.error_message, f"configs of topic {result.resource_name}")
            found[result.resource_name] = {
                config.name: "" if config.value is None else config.value
                for config in result.configs
                if config.config_source == DYNAMIC_TOPIC_CONFIG
            }
        return found


_ADVICE: Final = {
    ErrorCode.unknown_topic_or_partition: "there is no such topic; `ottla topic list` shows those that are there",
    ErrorCode.topic_already_exists: "a topic of that name is already there",
    ErrorCode.topic_authorization_failed: "you are not allowed to",
}


def _told(code: ErrorCode, message: str | None) -> str:
    return _ADVICE.get(code) or message or code.name.upper()


def _raise_for(code: ErrorCode, message: str | None, what: str) -> None:
    if code is not ErrorCode.none:
        raise OttlaError(f"{what}: {_told(code, message)}")
