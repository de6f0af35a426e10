"""Who leads a partition when brokers come and go.

Without eligible leader replicas (KIP-966; a feature that is not finalised here): a partition whose last in-sync
replica goes keeps it in the ISR and has no leader until it is back. Every change of leader, also to nobody, bumps the
leader epoch, so over a restart of its only replica a partition's epoch grows by two.
"""

from collections.abc import Callable, Collection, Iterator
from uuid import UUID

from ottla.metadata.image import NO_LEADER, LeaderRecoveryState, MetadataImage, PartitionImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord

Acceptable = Callable[[int, PartitionImage], bool]  # whether a broker may lead the partition
Found = tuple[UUID, int, PartitionImage, bool]  # topic id, partition, its image, whether an unclean leader is allowed


def without_broker(image: MetadataImage, gone: int, may_be_unclean: Callable[[str], bool]) -> list[MetadataRecord]:
    """Takes a broker out of every ISR it is in, and elects others where it led."""

    def acceptable(broker_id: int, partition: PartitionImage) -> bool:
        return broker_id != gone and may_lead(image, broker_id, partition)

    affected = (found for found in _partitions(image, may_be_unclean) if gone in found[2].isr)
    return _changes(affected, acceptable, gone)


def with_broker(image: MetadataImage, back: int, may_be_unclean: Callable[[str], bool]) -> list[MetadataRecord]:
    """Elects leaders for partitions that have none, now that a broker is back (in the image it is still fenced)."""

    def acceptable(broker_id: int, partition: PartitionImage) -> bool:
        return may_lead(image, broker_id, partition, back)

    affected = (found for found in _partitions(image, may_be_unclean) if found[2].leader == NO_LEADER)
    return _changes(affected, acceptable, None)


def _partitions(image: MetadataImage, may_be_unclean: Callable[[str], bool]) -> Iterator[Found]:
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            yield topic.id, number, partition, may_be_unclean(topic.name)


def without_directories(
    image: MetadataImage, broker: int, offline: Collection[UUID], may_be_unclean: Callable[[str], bool]
) -> list[MetadataRecord]:
    """Takes a broker out of the ISR of every partition that it has in one of these directories."""

    def acceptable(broker_id: int, partition: PartitionImage) -> bool:
        return broker_id != broker and may_lead(image, broker_id, partition)

    def is_affected(partition: PartitionImage) -> bool:
        return broker in partition.isr and partition.directory_of(broker) in offline

    affected = (found for found in _partitions(image, may_be_unclean) if is_affected(found[2]))
    return _changes(affected, acceptable, broker)


def _changes(affected: Iterator[Found], acceptable: Acceptable, gone: int | None) -> list[MetadataRecord]:
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
    acceptable: Acceptable,
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


def _elect(partition: PartitionImage, isr: tuple[int, ...], acceptable: Acceptable, unclean: bool) -> tuple[int, bool]:
    """The new leader, and whether it may lack acknowledged records."""
    if partition.leader in isr and acceptable(partition.leader, partition):
        return partition.leader, False
    for broker_id in partition.replicas:
        if broker_id in isr and acceptable(broker_id, partition):
            return broker_id, False
    if unclean:
        for broker_id in partition.replicas:
            if acceptable(broker_id, partition):
                return broker_id, True
    return NO_LEADER, False


def may_lead(image: MetadataImage, broker_id: int, partition: PartitionImage, back: int | None = None) -> bool:
    """Whether a broker is there for it, or comes `back` just now, with the directory that the partition lies in."""
    broker = image.brokers.get(broker_id)
    if broker is None or not (broker.active or broker_id == back):
        return False
    return broker.has_online(partition.directory_of(broker_id))
