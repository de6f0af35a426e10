"""Replicas of new partitions: what is wrong with those that were given, and the record of a partition."""

from collections.abc import Sequence
from uuid import UUID

from ottla.metadata.controller.partition_change import DIRECTORIES
from ottla.metadata.controller.partition_changes import default_directory
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.partition_record import PartitionRecord


def wrong_with_replicas(replicas: Sequence[int], factor: int | None, image: MetadataImage) -> str | None:
    """Kafka's words for it; `factor` is the number of replicas that the topic's other partitions have."""
    if not replicas:
        return "The manual partition assignment includes an empty replica list."
    in_order = sorted(replicas)
    for position, broker_id in enumerate(in_order):
        if broker_id not in image.brokers:
            return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
        if position and in_order[position - 1] == broker_id:
            return f"The manual partition assignment includes the broker {broker_id} more than once."
    if factor is not None and len(replicas) != factor:
        return (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )
    return None


def nobody_could_lead(partition: int, replicas: Sequence[int], image: MetadataImage) -> str | None:
    if has_active(replicas, image):
        return None
    return (
        f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
        "controlled shutdown."
    )


def has_active(replicas: Sequence[int], image: MetadataImage) -> bool:
    return any(image.brokers[broker_id].active for broker_id in replicas)


def partition_record(topic_id: UUID, number: int, replicas: tuple[int, ...], image: MetadataImage) -> PartitionRecord:
    isr = tuple(broker_id for broker_id in replicas if image.brokers[broker_id].active)
    knows_directories = image.metadata_version >= DIRECTORIES
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(default_directory(image, broker_id) for broker_id in replicas if knows_directories),
    )
