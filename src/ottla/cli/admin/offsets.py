"""Offsets of partitions: where they begin and end, which one a time has, and deleting up to one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from ottla.cli.admin.moving import Moving, asked_again
from ottla.cli.admin.session import Session, raise_for
from ottla.cli.admin.topics import CHANGE_WITHIN_S, TopicInfo, by_topic, change_timeout, topics
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1


async def offsets(
    session: Session, topic: TopicInfo, timestamp: int, only: Sequence[int] | None = None
) -> dict[int, int]:
    """By partition the offset of a time (or EARLIEST, LATEST); -1 where no record is that young."""
    numbers = [partition.number for partition in topic.partitions] if only is None else only
    found = await offsets_of(session, [topic], [TopicPartition(topic.name, number) for number in numbers], timestamp)
    return {partition: offset for (_, partition), offset in found.items()}


@asked_again
async def offsets_of(
    session: Session, found: Iterable[TopicInfo], partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Like `offsets`, of partitions of many topics: each leader is asked once."""
    from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

    known = {topic.name: topic for topic in found}
    if not session.brokers:  # forgotten, as is who leads
        known = {topic.name: topic for topic in await topics(session, list(known))}
    asked: dict[int, list[ListOffsetsTopic]] = defaultdict(list)
    for name, numbers in by_topic(partitions).items():
        for leader, led in _by_leader(known[name], numbers).items():
            rows = tuple(
                ListOffsetsPartition(partition_index=cast(Any, number), timestamp=cast(Any, timestamp))
                for number in led
            )
            asked[leader].append(ListOffsetsTopic(name=cast(Any, name), partitions=rows))
    told: dict[TopicPartition, int] = {}
    for leader, rows_of_topics in asked.items():
        request = ListOffsetsRequest(
            replica_id=cast(Any, -1), isolation_level=cast(Any, 0), topics=tuple(rows_of_topics)
        )
        for topic in (await session.call(request, broker=leader)).topics:
            for part in topic.partitions:
                place = TopicPartition(topic.name, part.partition_index)
                raise_for(part.error_code, None, f"offsets of {place}")
                told[place] = part.offset
    return told


async def delete_records(session: Session, topic: TopicInfo, before: Mapping[int, int]) -> dict[int, int]:
    """Deletes what lies before an offset of each partition; gives where each begins now."""
    from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

    found: dict[int, int] = {}
    for leader, numbers in _by_leader(topic, list(before)).items():
        partitions = tuple(
            DeleteRecordsPartition(partition_index=cast(Any, number), offset=cast(Any, before[number]))
            for number in numbers
        )
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=cast(Any, topic.name), partitions=partitions),),
            timeout=change_timeout(),
        )
        answer = await session.call(request, broker=leader, longer_s=CHANGE_WITHIN_S)
        for part in answer.topics[0].partitions:
            raise_for(part.error_code, None, f"cannot delete records of {topic.name}-{part.partition_index}")
            found[part.partition_index] = part.low_watermark
    return found


def _by_leader(topic: TopicInfo, only: Sequence[int] | None) -> dict[int, list[int]]:
    """Each partition is asked of its leader."""
    led: dict[int, list[int]] = defaultdict(list)
    for partition in topic.partitions:
        if only is not None and partition.number not in only:
            continue
        if partition.leader < 0:
            raise Moving(
                f"{topic.name}-{partition.number} has no leader now; is a broker down?", ErrorCode.leader_not_available
            )
        led[partition.leader].append(partition.number)
    return led
