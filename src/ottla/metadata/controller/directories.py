"""Which directory of a broker a replica lies in, and what it means when that directory is gone (KIP-858)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final
from uuid import UUID

from ottla.metadata.controller.brokers import check_epoch
from ottla.metadata.controller.partition_change import DIRECTORIES
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.requests import AssignReplicasToDirs, ReplicaDirectory
from ottla.metadata.controller.result import NO_ERROR, ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.image import BrokerImage, MetadataImage, PartitionImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

CORDONING: Final = 30  # the metadata.version that can say it: 4.3-IV0
Assigned = tuple[tuple[ReplicaDirectory, ApiError], ...]


def assign_replicas(
    request: AssignReplicasToDirs, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[Assigned] | Refused:
    if image.metadata_version < DIRECTORIES:
        return Refused(ApiError(ErrorCode.unsupported_version, "Directory assignment is not supported yet."))
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    changes = PartitionChanges(image, settings, soft)
    replies: list[tuple[ReplicaDirectory, ApiError]] = []
    records: list[MetadataRecord] = []
    for assignment in request.assignments:
        partition = _partition(image, assignment, broker.id)
        if isinstance(partition, ApiError):
            replies.append((assignment, partition))
            continue
        replies.append((assignment, NO_ERROR))
        # It may have failed before we heard of the assignment; or the replica was lost and is found.
        is_offline = not broker.has_online(assignment.directory)
        change = changes.change(
            image.topics[assignment.topic_id],
            assignment.partition,
            _placed(partition, broker.id, assignment.directory),
            gone=(broker.id,) if is_offline else (),
            may_be_unclean=True,
        )
        if is_offline:
            change.isr = tuple(member for member in partition.isr if member != broker.id)
        record = change.record()
        if change.before.directories != partition.directories:
            record = record or PartitionChangeRecord(topic_id=assignment.topic_id, partition_id=assignment.partition)
            if record.directories is None:  # else there are other replicas now, and they are among those that it names
                record = replace(record, directories=change.before.directories)
        if record is not None:
            records.append(record)
    return ControllerResult(tuple(replies), tuple(records), is_whole=False)


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


def offline(
    broker: BrokerImage,
    failed: Collection[UUID],
    image: MetadataImage,
    settings: ControllerSettings,
    soft: SoftState,
) -> list[MetadataRecord]:
    """Of those that failed, the ones which the registration still has."""
    gone = tuple(directory for directory in broker.directories if directory in failed)
    if not gone:
        return []
    left = tuple(directory for directory in broker.directories if directory not in gone)
    changes = PartitionChanges(image, settings, soft).without_directories(broker.id, gone)
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=left)
    return [*changes, change]


def cordoned(broker: BrokerImage, directories: tuple[UUID, ...], image: MetadataImage) -> list[MetadataRecord]:
    unchanged = set(directories) == set(broker.cordoned_directories or ())
    if unchanged or image.metadata_version < CORDONING:
        return []
    return [
        BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=directories)
    ]
