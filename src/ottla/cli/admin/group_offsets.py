"""Offsets that groups have committed: fetching, committing and deleting them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from ottla.cli.admin.groups import coordinators
from ottla.cli.admin.moving import asked_again
from ottla.cli.admin.session import Refusal, Session, raise_for, refusal
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, TopicPartition


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None
    metadata: str


@asked_again
async def committed(session: Session, group_id: str) -> dict[TopicPartition, Committed]:
    """All that the group has committed, by partition."""
    from kio.schema.offset_fetch.v7.request import OffsetFetchRequest

    broker = (await coordinators(session, [group_id]))[group_id]
    request = OffsetFetchRequest(group_id=cast(Any, group_id), topics=None, require_stable=False)
    answer = await session.call(request, broker=broker)
    raise_for(answer.error_code, None, f"offsets of group {group_id}")
    found = {}
    for topic in answer.topics:
        for part in topic.partitions:
            place = TopicPartition(topic.name, part.partition_index)
            raise_for(part.error_code, None, f"the offset of group {group_id} in {place}")
            if part.committed_offset >= 0:
                epoch = part.committed_leader_epoch
                found[place] = Committed(part.committed_offset, None if epoch < 0 else epoch, part.metadata or "")
    return dict(sorted(found.items()))


@asked_again
async def commit(session: Session, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """In nobody's name, which a group with members does not allow."""
    from kio.schema.offset_commit.v8.request import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
    )

    rows: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=cast(Any, partition),
            committed_offset=cast(Any, offset),
            committed_leader_epoch=cast(Any, NO_EPOCH),
            committed_metadata="",
        )
        rows[topic].append(row)
    request = OffsetCommitRequest(
        group_id=cast(Any, group_id),
        generation_id_or_member_epoch=cast(Any, -1),
        member_id="",
        group_instance_id=None,
        topics=tuple(
            OffsetCommitRequestTopic(name=cast(Any, topic), partitions=tuple(parts)) for topic, parts in rows.items()
        ),
    )
    broker = (await coordinators(session, [group_id]))[group_id]
    answer = await session.call(request, broker=broker)
    for topic in answer.topics:
        for part in topic.partitions:
            place = TopicPartition(topic.name, part.partition_index)
            raise_for(part.error_code, None, f"cannot commit the offset of group {group_id} in {place}")


@asked_again
async def delete(
    session: Session, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Refusal | None]:
    """For each partition None, or why its offset stays. OttlaError if the group as a whole does not allow it."""
    from kio.schema.offset_delete.v0.request import (
        OffsetDeleteRequest,
        OffsetDeleteRequestPartition,
        OffsetDeleteRequestTopic,
    )

    wanted: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        wanted[topic].append(partition)
    request = OffsetDeleteRequest(
        group_id=cast(Any, group_id),
        topics=tuple(
            OffsetDeleteRequestTopic(
                name=cast(Any, topic),
                partitions=tuple(OffsetDeleteRequestPartition(partition_index=cast(Any, n)) for n in numbers),
            )
            for topic, numbers in wanted.items()
        ),
    )
    broker = (await coordinators(session, [group_id]))[group_id]
    answer = await session.call(request, broker=broker)
    if answer.error_code is ErrorCode.group_id_not_found:
        from ottla.cli.admin.groups import no_such_group
        from ottla.model.errors import OttlaError

        raise OttlaError(await no_such_group(session, group_id))
    raise_for(answer.error_code, None, f"cannot delete offsets of group {group_id}")
    return {
        TopicPartition(topic.name, part.partition_index): refusal(part.error_code, None)
        for topic in answer.topics
        for part in topic.partitions
    }
