"""Moving replicas between brokers (KIP-455): which moves are under way, beginning and cancelling them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from ottla.cli.admin.session import Refusal, Session, raise_for, refusal
from ottla.cli.admin.topics import CHANGE_WITHIN_S, by_topic, change_timeout
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition


class Move(NamedTuple):
    """A partition that is being moved: all its replicas now, and which of them come and go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


async def moves(session: Session, of: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, Move]:
    """All that are under way, or those of some partitions."""
    from kio.schema.list_partition_reassignments.v0.request import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsTopics,
    )

    asked = None
    if of is not None:
        asked = tuple(
            ListPartitionReassignmentsTopics(name=cast(Any, topic), partition_indexes=cast(Any, tuple(numbers)))
            for topic, numbers in by_topic(of).items()
        )
    answer = await session.call(ListPartitionReassignmentsRequest(timeout=change_timeout(), topics=asked))
    raise_for(answer.error_code, answer.error_message, "cannot ask which partitions are being moved")
    return {
        TopicPartition(topic.name, row.partition_index): Move(row.replicas, row.adding_replicas, row.removing_replicas)
        for topic in answer.topics
        for row in topic.partitions
    }


async def move(
    session: Session, targets: Mapping[TopicPartition, Sequence[int] | None]
) -> dict[TopicPartition, Refusal | None]:
    """Begins to move partitions to these replicas; None cancels a move that is under way."""
    from kio.schema.alter_partition_reassignments.v0.request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    asked = []
    for topic, numbers in by_topic(targets).items():
        rows = tuple(
            ReassignablePartition(
                partition_index=cast(Any, number),
                replicas=None if replicas is None else cast(Any, tuple(replicas)),
            )
            for number in numbers
            for replicas in (targets[TopicPartition(topic, number)],)
        )
        asked.append(ReassignableTopic(name=cast(Any, topic), partitions=rows))
    answer = await session.call(
        AlterPartitionReassignmentsRequest(timeout=change_timeout(), topics=tuple(asked)), longer_s=CHANGE_WITHIN_S
    )
    raise_for(answer.error_code, answer.error_message, "cannot move partitions")
    return {
        TopicPartition(topic.name, row.partition_index): refusal(row.error_code, row.error_message)
        for topic in answer.responses
        for row in topic.partitions
    }


async def choose_folders(session: Session, wanted: Mapping[int, Mapping[str, Sequence[TopicPartition]]]) -> None:
    """In which log dirs brokers shall keep replicas, also such as they will get. By broker and folder."""
    from kio.schema.alter_replica_log_dirs.v2.request import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    for broker, folders in wanted.items():
        dirs = tuple(
            AlterReplicaLogDir(
                path=folder,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=cast(Any, topic), partitions=cast(Any, tuple(numbers)))
                    for topic, numbers in by_topic(places).items()
                ),
            )
            for folder, places in folders.items()
        )
        answer = await session.call(AlterReplicaLogDirsRequest(dirs=dirs), broker=broker)
        for topic in answer.results:
            for row in topic.partitions:
                if row.error_code is not ErrorCode.replica_not_available:  # it will be, and then goes there
                    place = TopicPartition(topic.topic_name, row.partition_index)
                    raise_for(row.error_code, None, f"broker {broker} cannot keep {place} in the folder of the plan")
