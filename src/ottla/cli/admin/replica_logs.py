"""The replicas of partitions, each asked of its own broker: how large they are, and where they end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, cast

from ottla.cli.admin.offsets import LATEST
from ottla.cli.admin.session import Session
from ottla.cli.admin.topics import TopicInfo, by_topic
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition

_DEBUGGER: Final = -2
"""As whose fetcher ListOffsets is asked, so that a follower answers too, with the end of its own log."""


class Replica(NamedTuple):
    partition: TopicPartition
    broker: int


def replicas_of(topics: Iterable[TopicInfo], *, at_least: int = 1) -> list[Replica]:
    """All, or those of partitions that have at least so many."""
    return [
        Replica(TopicPartition(topic.name, part.number), broker)
        for topic in topics
        for part in topic.partitions
        if len(part.replicas) >= at_least
        for broker in part.replicas
    ]


async def ends(session: Session, replicas: Iterable[Replica]) -> dict[Replica, int]:
    """Of those replicas whose brokers answer."""
    from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    found: dict[Replica, int] = {}
    for broker, partitions in _by_broker(replicas).items():
        topics = tuple(
            ListOffsetsTopic(
                name=cast(Any, topic),
                partitions=tuple(
                    ListOffsetsPartition(partition_index=cast(Any, number), timestamp=cast(Any, LATEST))
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(partitions).items()
        )
        request = ListOffsetsRequest(replica_id=cast(Any, _DEBUGGER), isolation_level=cast(Any, 0), topics=topics)
        answer = await _answer(session, request, broker)
        for topic in () if answer is None else answer.topics:
            for row in topic.partitions:
                if row.error_code is ErrorCode.none:
                    found[Replica(TopicPartition(topic.name, row.partition_index), broker)] = row.offset
    return found


async def sizes(session: Session, replicas: Iterable[Replica]) -> dict[Replica, int]:
    """Bytes of their segments, of those replicas whose brokers answer."""
    from kio.schema.describe_log_dirs.v2.request import DescribableLogDirTopic, DescribeLogDirsRequest

    found: dict[Replica, int] = {}
    for broker, partitions in _by_broker(replicas).items():
        topics = tuple(
            DescribableLogDirTopic(topic=cast(Any, topic), partitions=cast(Any, tuple(numbers)))
            for topic, numbers in by_topic(partitions).items()
        )
        answer = await _answer(session, DescribeLogDirsRequest(topics=topics), broker)
        for folder in () if answer is None else answer.results:
            for topic in folder.topics:
                for row in topic.partitions:
                    if not row.is_future_key:
                        found[Replica(TopicPartition(topic.name, row.partition_index), broker)] = row.partition_size
    return found


async def _answer(session: Session, request: Any, broker: int) -> Any | None:
    """None of a broker that is down: the others have something to tell all the same."""
    if broker not in session.brokers:
        return None
    try:
        return await session.call(request, broker=broker)
    except OttlaError:
        session.brokers = {other: where for other, where in session.brokers.items() if other != broker}
        return None


def _by_broker(replicas: Iterable[Replica]) -> Mapping[int, list[TopicPartition]]:
    found: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, broker in replicas:
        found[broker].append(partition)
    return found
