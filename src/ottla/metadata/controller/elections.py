"""ElectLeaders: back to the preferred replica, or to any that lives though it may lack records."""

from functools import partial
from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller import partition_changes
from ottla.metadata.controller.partition_changes import may_lead
from ottla.metadata.controller.requests import ElectionType, ElectLeaders, PartitionErrors, PartitionsOf
from ottla.metadata.controller.result import NO_ERROR, ApiError, ControllerResult
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

_NOT_NEEDED: Final = ApiError(
    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
)  # fmt: skip
_IMPOSSIBLE: Final = {
    ElectionType.PREFERRED: ApiError(ErrorCode.preferred_leader_not_available),
    ElectionType.UNCLEAN: ApiError(ErrorCode.eligible_leaders_not_available),
}


def elect_leaders(request: ElectLeaders, image: MetadataImage) -> ControllerResult[PartitionErrors]:
    records: list[PartitionChangeRecord] = []
    replies = []
    everything = tuple(PartitionsOf(topic.name, tuple(topic.partitions)) for topic in image.topics.values())
    for asked in everything if request.partitions is None else request.partitions:
        outcomes = []
        for number in asked.partitions:
            breathe()
            outcome = _elect(asked.topic, number, request.type, image)
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
                outcomes.append((number, NO_ERROR))
            elif outcome is not _NOT_NEEDED or request.partitions is not None:
                outcomes.append((number, outcome))
        replies.append((asked.topic, tuple(outcomes)))
    return ControllerResult(tuple(replies), tuple(records))


def _elect(
    name: str, number: int, kind: ElectionType, image: MetadataImage
) -> PartitionChangeRecord | ApiError:  # fmt: skip
    topic = image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{number}")
    preferred = partition.replicas[0]
    if partition.leader == preferred or (kind is ElectionType.UNCLEAN and partition.leader != NO_LEADER):
        return _NOT_NEEDED
    if kind is ElectionType.PREFERRED and preferred in partition.isr and may_lead(image, preferred, partition):
        return PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=preferred)
    return _any(topic, number, partition, kind, image) or _IMPOSSIBLE[kind]


def _any(
    topic: TopicImage, number: int, partition: PartitionImage, kind: ElectionType, image: MetadataImage
) -> PartitionChangeRecord | None:
    return partition_changes.change(
        topic.id, number, partition, partial(may_lead, image), None, kind is ElectionType.UNCLEAN
    )
