"""An image as the records of a snapshot, and back, in Kafka's order: features first, they say how to read the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from ottla.metadata.batches import batch_records, metadata_batch
from ottla.metadata.controller.features import REGISTERS_CONTROLLERS
from ottla.metadata.controller.partition_change import DIRECTORIES
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import (
    EMPTY_IMAGE,
    METADATA_VERSION,
    BrokerImage,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.record_codec import RecordError
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.metadata.records.producer_ids_record import ProducerIdsRecord
from ottla.metadata.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.metadata.records.register_controller_record import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)
from ottla.metadata.records.topic_record import TopicRecord
from ottla.metadata.replay_error import ReplayError
from ottla.model.errors import OttlaError
from ottla.raft import snapshot_format
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.snapshot_format import Contents
from ottla.raft.voters import VoterSet
from ottla.record.records import CorruptBatch

_RECORDS_A_BATCH: Final = 256


class Surroundings(NamedTuple):
    """What a snapshot says beside its image: of the last batch in it, and of the quorum."""

    timestamp_ms: int = 0
    kraft_version: int = 0
    voters: VoterSet | None = None


NOTHING_KNOWN: Final = Surroundings()


def id_of(image: MetadataImage) -> OffsetAndEpoch:
    return OffsetAndEpoch(image.offset + 1, image.epoch)


def encode(image: MetadataImage, now_ms: int, known: Surroundings = NOTHING_KNOWN) -> bytes:
    return b"".join(encode_pieces(image, now_ms, known))


def encode_pieces(image: MetadataImage, now_ms: int, known: Surroundings = NOTHING_KNOWN) -> Iterator[bytes]:
    """A few milliseconds of work each, for a node that serves meanwhile."""
    return snapshot_format.encode_pieces(
        _batches(image, now_ms),
        now_ms,
        epoch=image.epoch,
        last_contained_timestamp=known.timestamp_ms,
        kraft_version=known.kraft_version,
        voters=known.voters,
    )


def _batches(image: MetadataImage, now_ms: int) -> Iterator[bytes]:
    records = image_records(image)
    while some := list(islice(records, _RECORDS_A_BATCH)):
        yield metadata_batch(some, image.metadata_version, now_ms)


def load(contents: Contents, id: OffsetAndEpoch) -> MetadataImage:
    """OttlaError where a record cannot be replayed: metadata is never guessed."""
    delta = MetadataDelta(EMPTY_IMAGE)
    for batch in contents.batches:
        _replay(batch, delta, id)
    return delta.apply(id.offset - 1, id.epoch)


async def load_in_slices(contents: Contents, id: OffsetAndEpoch) -> MetadataImage:
    """The same while a node serves: the loop has its turn after every batch."""
    delta = MetadataDelta(EMPTY_IMAGE)
    for batch in contents.batches:
        _replay(batch, delta, id)
        await asyncio.sleep(0)
    return delta.apply(id.offset - 1, id.epoch)


def _replay(batch: memoryview, delta: MetadataDelta, id: OffsetAndEpoch) -> None:
    try:
        delta.replay_all(batch_records(batch))
    except (CorruptBatch, RecordError, ReplayError) as error:
        name = snapshot_format.file_name(id)
        raise OttlaError(
            f"the metadata snapshot {name} cannot be replayed: {error}. Remove it and start again."
        ) from error


def image_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    if METADATA_VERSION in image.features:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=image.metadata_version)
    for name, level in image.features.items():
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=level)
    # What is written is what brokers of that level can read: before, nobody knew of directories.
    knows_directories = image.metadata_version >= DIRECTORIES
    for broker in image.brokers.values():
        yield _broker(broker, broker.directories if knows_directories else ())
    for controller in image.controllers.values():
        if image.metadata_version >= REGISTERS_CONTROLLERS:
            yield _controller(controller)
    for topic in image.topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        for number, partition in topic.partitions.items():
            yield _partition(topic, number, partition, partition.directories if knows_directories else ())
    for resource, values in image.configs.items():
        for name, value in values.items():
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id)
    yield from image.held.values()


def _broker(broker: BrokerImage, directories: tuple[UUID, ...]) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=tuple(
            BrokerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in broker.endpoints
        ),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ),
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=directories,
        cordoned_log_dirs=broker.cordoned_directories,
    )


def _controller(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=False,
        end_points=tuple(
            ControllerEndpoint(name=end.name, host=end.host, port=end.port, security_protocol=end.security_protocol)
            for end in controller.endpoints
        ),
        features=tuple(
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ),
    )


def _partition(
    topic: TopicImage, number: int, partition: PartitionImage, directories: tuple[UUID, ...]
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic.id,
        replicas=partition.replicas,
        isr=partition.isr,
        removing_replicas=partition.removing_replicas,
        adding_replicas=partition.adding_replicas,
        leader=partition.leader,
        leader_recovery_state=int(partition.leader_recovery_state),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=directories,
        eligible_leader_replicas=partition.elr or None,
        last_known_elr=partition.last_known_elr or None,
    )
