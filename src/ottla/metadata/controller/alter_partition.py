"""AlterPartition: a leader proposes another ISR, or says that it has recovered from an unclean election.

A proposal made on something older than what the controller knows is refused, partition by partition. One that completes
a reassignment may cost the proposer its leadership: then NEW_LEADER_ELECTED, though the change was made.
"""

from __future__ import annotations

from ottla.env.slices import breathe
from ottla.metadata import partition_records
from ottla.metadata.controller.brokers import check_epoch
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.requests import AlteredPartition, AlterPartition, IsrMember, PartitionAlteration
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.image import LeaderRecoveryState, MetadataImage, PartitionImage
from ottla.metadata.records.base import MetadataRecord
from ottla.model.errors import ErrorCode

_RECOVERY_STATES = tuple(LeaderRecoveryState)


def alter_partition(
    request: AlterPartition, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[tuple[AlteredPartition, ...]] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    changes = PartitionChanges(image, settings, soft)
    records: list[MetadataRecord] = []
    replies: list[AlteredPartition] = []
    for proposal in request.partitions:
        breathe()
        replies.append(_alter(proposal, broker.id, image, changes, records))
    return ControllerResult(tuple(replies), tuple(records), is_whole=False)


def _alter(
    proposal: PartitionAlteration,
    broker_id: int,
    image: MetadataImage,
    changes: PartitionChanges,
    records: list[MetadataRecord],
) -> AlteredPartition:
    topic = image.topics.get(proposal.topic_id)
    if topic is None:
        return _refused(proposal, ErrorCode.unknown_topic_id)
    partition = topic.partitions.get(proposal.partition)
    if partition is None:
        return _refused(proposal, ErrorCode.unknown_topic_or_partition)
    wrong = _what_is_wrong(proposal, broker_id, partition) or _ineligible(proposal.isr, image)
    if wrong is not None:
        return _refused(proposal, wrong)
    change = changes.change(topic, proposal.partition, partition, may_be_unclean=True)
    change.isr = tuple(member.broker_id for member in proposal.isr)
    change.recovery = LeaderRecoveryState(proposal.leader_recovery_state)
    record = change.record()
    if record is not None:
        records.append(record)
        if record.leader not in (broker_id, partition_records.NO_LEADER_CHANGE):
            return _refused(proposal, ErrorCode.new_leader_elected)
        partition = partition_records.merged(partition, record)
    return AlteredPartition(
        proposal.topic_id,
        proposal.partition,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _refused(proposal: PartitionAlteration, code: ErrorCode) -> AlteredPartition:
    return AlteredPartition(proposal.topic_id, proposal.partition, ApiError(code))


def _what_is_wrong(proposal: PartitionAlteration, broker_id: int, partition: PartitionImage) -> ErrorCode | None:
    # Whoever knows more than we do has heard of a newer controller.
    if proposal.leader_epoch > partition.leader_epoch or proposal.partition_epoch > partition.partition_epoch:
        return ErrorCode.not_controller
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.fenced_leader_epoch
    if broker_id != partition.leader:
        return ErrorCode.invalid_request
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.invalid_update_version
    isr = [member.broker_id for member in proposal.isr]
    is_valid = len(set(isr)) == len(isr) and set(isr) <= set(partition.replicas) and partition.leader in isr
    if not is_valid or proposal.leader_recovery_state not in _RECOVERY_STATES:
        return ErrorCode.invalid_request
    recovering = proposal.leader_recovery_state == LeaderRecoveryState.RECOVERING
    if recovering and (len(isr) > 1 or partition.leader_recovery_state is LeaderRecoveryState.RECOVERED):
        return ErrorCode.invalid_request
    return None


def _ineligible(isr: tuple[IsrMember, ...], image: MetadataImage) -> ErrorCode | None:
    """KIP-903: a follower that was restarted since the leader heard of it may lack what it had then."""
    for member in isr:
        broker = image.brokers.get(member.broker_id)
        if broker is None or not broker.active or member.broker_epoch not in (-1, broker.epoch):
            return ErrorCode.ineligible_replica
    return None
