"""Which directory of a broker a replica lies in, and what it means when that directory is gone (KIP-858)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from ottla.metadata.controller import partition_changes
from ottla.metadata.controller.brokers import check_epoch
from ottla.metadata.controller.requests import (
    AssignReplicasToDirs,
    CordonDirectories,
    ReplicaDirectory,
    TakeDirectoriesOffline,
)
from ottla.metadata.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.unclean import may_be_unclean
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

CORDONING: Final = 30  # the metadata.version that can say it: 4.3-IV0
Assigned = tuple[tuple[ReplicaDirectory, ApiError], ...]


def assign_replicas(
    request: AssignReplicasToDirs, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[Assigned] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    unclean = may_be_unclean(image, settings)

    def acceptable(broker_id: int, partition: PartitionImage) -> bool:
        return partition_changes.may_lead(image, broker_id, partition)

    replies: list[tuple[ReplicaDirectory, ApiError]] = []
    records: list[MetadataRecord] = []
    for assignment in request.assignments:
        partition = _partition(image, assignment, broker.id)
        if isinstance(partition, ApiError):
            replies.append((assignment, partition))
            continue
        replies.append((assignment, NO_ERROR))
        placed = _placed(partition, broker.id, assignment.directory)
        # It may have failed before we heard of the assignment; or the replica was lost and is found.
        gone = None if broker.has_online(assignment.directory) else broker.id
        name = image.topics[assignment.topic_id].name
        change = partition_changes.change(
            assignment.topic_id, assignment.partition, placed, acceptable, gone, unclean(name)
        )
        if placed != partition:
            change = change or PartitionChangeRecord(topic_id=assignment.topic_id, partition_id=assignment.partition)
            change = replace(change, directories=placed.directories)
        if change is not None:
            records.append(change)
    return ControllerResult(tuple(replies), tuple(records))


def _partition(image: MetadataImage, assignment: ReplicaDirectory, broker_id: int) -> PartitionImage | ApiError:
    topic = image.topics.get(assignment.topic_id)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_id)
    partition = topic.partitions.get(assignment.partition)
    if partition is None:
        return ApiError(ErrorCode.unknown_topic_or_partition)
    return partition if broker_id in partition.replicas else ApiError(ErrorCode.not_leader_or_follower)


def _placed(partition: PartitionImage, broker_id: int, directory: UUID) -> PartitionImage:
    return replace(
        partition,
        directories=tuple(
            directory if replica == broker_id else before
            for replica, before in zip(partition.replicas, partition.directories, strict=True)
        ),
    )


def take_offline(
    request: TakeDirectoriesOffline, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[None] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    gone = tuple(directory for directory in broker.directories if directory in request.directories)
    if not gone:
        return ControllerResult(None)
    left = tuple(directory for directory in broker.directories if directory not in gone)
    changes = partition_changes.without_directories(image, broker.id, gone, may_be_unclean(image, settings))
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
    return ControllerResult(None, (*changes, change))


def cordon(request: CordonDirectories, image: MetadataImage) -> ControllerResult[None] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    unchanged = set(request.directories) == set(broker.cordoned_directories or ())
    if unchanged or image.metadata_version < CORDONING:
        return ControllerResult(None)
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=request.directories
    )
    return ControllerResult(None, (change,))
