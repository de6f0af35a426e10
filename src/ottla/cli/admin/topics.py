"""Topics: which there are, and making, growing and deleting them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from ottla.cli.admin.session import Refusal, Session, raise_for, refusal
from ottla.cli.cluster_options import Address
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition

CHANGE_WITHIN_S: Final = 30.0
_DESCRIBE_TOPIC_PARTITIONS: Final = 75


class PartitionInfo(NamedTuple):
    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    eligible: tuple[int, ...] | None = None
    """Not in sync, but with all that was committed (KIP-966); None where the cluster does not tell."""
    last_known_eligible: tuple[int, ...] | None = None


class TopicInfo(NamedTuple):
    name: str
    id: UUID | None
    internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(partition.replicas) for partition in self.partitions), default=0)


async def topics(
    session: Session, names: Sequence[str] | None = None, *, leave_out_missing: bool = False
) -> list[TopicInfo]:
    """All topics, or the named ones; OttlaError if one of those is not there. Also tells the session the brokers."""
    from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

    asked = None if names is None else tuple(MetadataRequestTopic(topic_id=None, name=cast(Any, n)) for n in names)
    answer = await session.call(
        MetadataRequest(topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=False)
    )
    session.brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
    found = []
    for topic in answer.topics:
        if topic.error_code is ErrorCode.unknown_topic_or_partition:
            if leave_out_missing:
                continue
            raise OttlaError(await no_such_topic(session, topic.name))
        raise_for(topic.error_code, None, f"topic {topic.name}")
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


async def with_eligible(session: Session, found: Sequence[TopicInfo]) -> list[TopicInfo]:
    """The same with the replicas that are eligible as leaders, where the cluster tells."""
    from kio.schema.describe_topic_partitions.v0.request import (
        Cursor,
        DescribeTopicPartitionsRequest,
        TopicRequest,
    )

    if not found or await session.newest(_DESCRIBE_TOPIC_PARTITIONS, 0) is None:
        return list(found)
    rows: dict[TopicPartition, Any] = {}
    cursor = None
    asked = tuple(TopicRequest(name=cast(Any, topic.name)) for topic in found)
    while True:
        answer = await session.call(DescribeTopicPartitionsRequest(topics=asked, cursor=cursor))
        for topic in answer.topics:
            rows |= {TopicPartition(str(topic.name), row.partition_index): row for row in topic.partitions}
        if answer.next_cursor is None:
            break
        cursor = Cursor(topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index)

    def added(topic: str, part: PartitionInfo) -> PartitionInfo:
        row = rows.get(TopicPartition(topic, part.number))
        if row is None:
            return part
        return part._replace(eligible=row.eligible_leader_replicas or (), last_known_eligible=row.last_known_elr or ())

    return [topic._replace(partitions=tuple(added(topic.name, part) for part in topic.partitions)) for topic in found]


async def no_such_topic(session: Session, name: str) -> str:
    from ottla.model.near_miss import did_you_mean

    hint = did_you_mean(name, [topic.name for topic in await topics(session)])
    return f"there is no topic {name}{hint or '; `ottla topic list` shows those that are there'}"


async def create_topic(
    session: Session,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
    *,
    check_only: bool,
) -> TopicInfo:
    """Partitions and replicas of -1 take the broker's defaults. In the answer, leaders are not known yet."""
    from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

    plain = cast(Any, (name, partitions, replication_factor))
    topic = CreatableTopic(
        name=plain[0],
        num_partitions=plain[1],
        replication_factor=plain[2],
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in configs.items()),
    )
    answer = await session.call(
        CreateTopicsRequest(topics=(topic,), timeout=change_timeout(), validate_only=check_only),
        longer_s=CHANGE_WITHIN_S,
    )
    (made,) = answer.topics
    raise_for(made.error_code, made.error_message, f"cannot create topic {name}")
    replicas = tuple(range(max(made.replication_factor, 0)))
    numbers = range(max(made.num_partitions, 0))
    return TopicInfo(
        made.name, made.topic_id, False, tuple(PartitionInfo(i, -1, -1, replicas, (), ()) for i in numbers)
    )


async def delete_topics(session: Session, names: Sequence[str]) -> dict[str, Refusal | None]:
    """For each name None, or why it could not be deleted."""
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

    states = tuple(DeleteTopicState(name=cast(Any, name), topic_id=None) for name in names)
    answer = await session.call(DeleteTopicsRequest(topics=states, timeout=change_timeout()), longer_s=CHANGE_WITHIN_S)
    return {topic.name: refusal(topic.error_code, topic.error_message) for topic in answer.responses}


async def add_partitions(session: Session, name: str, total: int, *, check_only: bool) -> None:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic

    topic = CreatePartitionsTopic(name=cast(Any, name), count=cast(Any, total), assignments=None)
    answer = await session.call(
        CreatePartitionsRequest(topics=(topic,), timeout=change_timeout(), validate_only=check_only),
        longer_s=CHANGE_WITHIN_S,
    )
    (made,) = answer.results
    raise_for(made.error_code, made.error_message, f"cannot give topic {name} {total} partitions")


def change_timeout() -> Any:
    """What the broker may take for a change."""
    from datetime import timedelta

    return timedelta(seconds=CHANGE_WITHIN_S)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """As requests have them: the partitions of each topic together."""
    found: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        found[topic].append(number)
    return found
