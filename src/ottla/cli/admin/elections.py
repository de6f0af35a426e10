"""Electing leaders: the first replica of each partition, or any that lives where none in sync does."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, cast

from ottla.cli.admin.session import Refusal, Session, raise_for, refusal
from ottla.cli.admin.topics import CHANGE_WITHIN_S, by_topic, change_timeout
from ottla.model.names import TopicPartition


class Election(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


async def elect(
    session: Session, election: Election, partitions: Sequence[TopicPartition] | None
) -> dict[TopicPartition, Refusal | None]:
    """Of the partitions, or of all (None), in which case those that need no election are left out."""
    from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions

    asked = None
    if partitions is not None:
        asked = tuple(
            TopicPartitions(topic=cast(Any, topic), partitions=cast(Any, tuple(numbers)))
            for topic, numbers in by_topic(partitions).items()
        )
    answer = await session.call(
        ElectLeadersRequest(election_type=cast(Any, int(election)), topic_partitions=asked, timeout=change_timeout()),
        longer_s=CHANGE_WITHIN_S,
    )
    raise_for(answer.error_code, None, "cannot elect leaders")
    return {
        TopicPartition(topic.topic, row.partition_id): refusal(row.error_code, row.error_message)
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
