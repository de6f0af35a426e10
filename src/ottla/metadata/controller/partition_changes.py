"""Who leads a partition when brokers come and go.

Without eligible leader replicas (KIP-966; a feature that is not finalised here): a partition whose last in-sync
replica goes keeps it in the ISR and has no leader until it is back. Every change of leader, also to nobody, bumps the
leader epoch, so over a restart of its only replica a partition's epoch grows by two.
"""

from collections.abc import Callable, Iterator
from uuid import UUID

from ottla.metadata.image import NO_LEADER, LeaderRecoveryState, MetadataImage, PartitionImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord

Found = tuple[UUID, int, PartitionImage, bool]  # topic id, partition, its image, whether an unclean leader is allowed


def without_broker(image: MetadataImage, gone: int, may_be_unclean: Callable[[str], bool]) -> list[MetadataRecord]:
    """Takes a broker out of every ISR it is in, and elects others where it led."""

    def acceptable(broker_id: int) -> bool:
        return broker_id != gone and is_active(image, broker_id)

    affected = (found for found in _partitions(image, may_be_unclean) if gone in found[2].isr)
    return _changes(affected, acceptable, gone)


def with_broker(image: MetadataImage, back: int, may_be_unclean: Callable[[str], bool]) -> list[MetadataRecord]:
    """Elects leaders for partitions that have none, now that a broker is back (in the image it is still fenced)."""

    def acceptable(broker_id: int) -> bool:
        return broker_id == back or is_active(image, broker_id)

    affected = (found for found in _partitions(image, may_be_unclean) if found[2].leader == NO_LEADER)
    return _changes(affected, acceptable, None)


def _partitions(image: MetadataImage, may_be_unclean: Callable[[str], bool]) -> Iterator[Found]:
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            yield topic.id, number, partition, may_be_unclean(topic.name)


def _changes(affected: Iterator[Found], acceptable: Callable[[int], bool], gone: int | None) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for topic_id, number, partition, unclean in affected:
        record = change(topic_id, number, partition, acceptable, gone, unclean)
        if record is not None:
            records.append(record)
    return records


def change(
    topic_id: UUID,
    number: int,
    partition: PartitionImage,
    acceptable: Callable[[int], bool],
    gone: int | None,
    unclean: bool,
) -> PartitionChangeRecord | None:
    """The record that takes `gone` out of the ISR and sees to a leader; None if nothing changes."""
    target_isr = tuple(broker_id for broker_id in partition.isr if broker_id != gone)
    leader, was_unclean = _elect(partition, target_isr, acceptable, unclean)
    isr: tuple[int, ...] | None = None
    recovery = -1
    if was_unclean:
        isr = (leader,)
        if partition.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
            recovery = LeaderRecoveryState.RECOVERING
    elif target_isr and target_isr != partition.isr:
        isr = target_isr
    if leader == partition.leader and isr is None:
        return None
    return PartitionChangeRecord(
        partition_id=number,
        topic_id=topic_id,
        isr=isr,
        leader=-2 if leader == partition.leader else leader,
        leader_recovery_state=recovery,
    )


def _elect(
    partition: PartitionImage, isr: tuple[int, ...], acceptable: Callable[[int], bool], unclean: bool
) -> tuple[int, bool]:
    """The new leader, and whether it may lack acknowledged records."""
    if partition.leader in isr and acceptable(partition.leader):
        return partition.leader, False
    for broker_id in partition.replicas:
        if broker_id in isr and acceptable(broker_id):
            return broker_id, False
    if unclean:
        for broker_id in partition.replicas:
            if acceptable(broker_id):
                return broker_id, True
    return NO_LEADER, False


def is_active(image: MetadataImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.active
