"""ElectLeaders: back to the preferred replica, or to any that lives though it may lack records. And what the controller
does of both by itself."""

from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller.partition_change import Election
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.requests import ElectionType, ElectLeaders, PartitionErrors, PartitionsOf
from ottla.metadata.controller.result import NO_ERROR, ApiError, ControllerResult
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

MAX_ELECTIONS: Final = 1000  # in one round that the controller makes by itself
_NOT_NEEDED: Final = ApiError(
    ErrorCode.election_not_needed, "Leader election not needed for topic partition."
)  # fmt: skip
_IMPOSSIBLE: Final = {
    ElectionType.PREFERRED: ApiError(ErrorCode.preferred_leader_not_available),
    ElectionType.UNCLEAN: ApiError(ErrorCode.eligible_leaders_not_available),
}


def elect_leaders(
    request: ElectLeaders, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[PartitionErrors]:
    changes = PartitionChanges(image, settings, soft)
    records: list[PartitionChangeRecord] = []
    replies = []
    everything = tuple(PartitionsOf(topic.name, tuple(topic.partitions)) for topic in image.topics.values())
    for asked in everything if request.partitions is None else request.partitions:
        outcomes = []
        for number in asked.partitions:
            breathe()
            outcome = _elect(asked.topic, number, request.type, image, changes)
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
                outcomes.append((number, NO_ERROR))
            elif outcome is not _NOT_NEEDED or request.partitions is not None:
                outcomes.append((number, outcome))
        replies.append((asked.topic, tuple(outcomes)))
    return ControllerResult(tuple(replies), tuple(records), is_whole=False)


def balance_leaders(image: MetadataImage, settings: ControllerSettings, soft: SoftState) -> ControllerResult[bool]:
    changes = PartitionChanges(image, settings, soft)
    records: list[PartitionChangeRecord] = []
    for topic_id, number in soft.index(image).not_preferred:
        topic = image.topics[topic_id]
        change = changes.change(topic, number, topic.partitions[number])
        change.election = Election.PREFERRED
        if (record := change.record()) is not None:
            records.append(record)
        if len(records) >= MAX_ELECTIONS:
            soft.more_to_balance()
            break
    return ControllerResult(len(records) >= MAX_ELECTIONS, tuple(records))


def elect_unclean_leaders(
    image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[bool]:
    changes = PartitionChanges(image, settings, soft)
    records: list[PartitionChangeRecord] = []
    for topic_id, number in soft.index(image).leaderless:
        topic = image.topics[topic_id]
        if changes.of_topics.may_be_unclean(topic.name):
            outcome = _elect(topic.name, number, ElectionType.UNCLEAN, image, changes)
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
        if len(records) >= MAX_ELECTIONS:
            soft.more_unclean()
            break
    return ControllerResult(len(records) >= MAX_ELECTIONS, tuple(records))


def _elect(
    name: str, number: int, kind: ElectionType, image: MetadataImage, changes: PartitionChanges
) -> PartitionChangeRecord | ApiError:
    topic = image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{number}")
    is_preferred = partition.leader == partition.replicas[0]
    if is_preferred if kind is ElectionType.PREFERRED else partition.leader != NO_LEADER:
        return _NOT_NEEDED
    change = changes.change(topic, number, partition)
    change.election = Election.PREFERRED if kind is ElectionType.PREFERRED else Election.UNCLEAN
    return change.record() or _IMPOSSIBLE[kind]
