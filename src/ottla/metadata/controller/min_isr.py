"""min.insync.replicas with eligible leader replicas (KIP-966): who is eligible depends on it, so there is one value.

Brokers have none of their own, the cluster always has one; and when it changes, those who were eligible by the old one
no longer are. Except where nobody is in sync: nothing has been written there since, so they have all there is, and
without them the partition would never have a leader again. (Kafka forgets them there too.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ottla.metadata.controller.features import ELR_VERSION, MIN_ISR
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

_NOT_OF_A_BROKER: Final = ApiError(
    ErrorCode.invalid_config, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
)
_NOT_TO_BE_REMOVED: Final = ApiError(
    ErrorCode.invalid_config, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."
)


def has_elr(image: MetadataImage) -> bool:
    return image.features.get(ELR_VERSION, 0) > 0


def what_is_wrong(resource: ConfigResource, wanted: Mapping[str, str | None], image: MetadataImage) -> ApiError | None:
    if resource.type != ResourceType.BROKER or MIN_ISR not in wanted or not has_elr(image):
        return None
    if resource.name:
        return _NOT_OF_A_BROKER
    return _NOT_TO_BE_REMOVED if wanted[MIN_ISR] is None else None


def cleared(records: Iterable[ConfigRecord], image: MetadataImage) -> list[MetadataRecord]:
    """What goes with records that change it."""
    changed = [record for record in records if record.name == MIN_ISR]
    if not changed or not has_elr(image):
        return []
    of_topics = ResourceType.TOPIC
    names = dict.fromkeys(record.resource_name if record.resource_type == of_topics else "" for record in changed)
    return [each for name in names for each in _cleared(name, image)]


def _cleared(topic_name: str, image: MetadataImage) -> Iterator[MetadataRecord]:
    # loaded here: hardly any node ever writes one
    from ottla.metadata.records.clear_elr_record import ClearElrRecord

    named = image.topic(topic_name)
    topics = image.topics.values() if named is None else (named,)
    if all(partition.isr for topic in topics for partition in topic.partitions.values()):
        yield ClearElrRecord(topic_name=topic_name)
        return
    for topic in topics:
        for number, partition in topic.partitions.items():
            if partition.isr and partition.elr:
                yield PartitionChangeRecord(partition_id=number, topic_id=topic.id, eligible_leader_replicas=())


def safety_records(image: MetadataImage, inherited: str) -> list[MetadataRecord]:
    """What must be so before eligible leader replicas are finalised."""
    records: list[MetadataRecord] = []
    if MIN_ISR not in image.config(ConfigResource(ResourceType.BROKER, "")):
        records.append(_record("", inherited))
    records += (
        _record(resource.name, None)
        for resource, values in image.configs.items()
        if resource.type == ResourceType.BROKER and resource.name and MIN_ISR in values
    )
    return records


def _record(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=MIN_ISR, value=value)
