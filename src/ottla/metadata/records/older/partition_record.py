"""Older versions of PartitionRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV1(MetadataRecord):
    __api_key__: ClassVar[int] = 3
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 1
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(default=-1, metadata={"kafka_type": "int32"})
    topic_id: UUID = field(metadata={"kafka_type": "uuid"})
    replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    isr: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    removing_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    adding_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    leader: int = field(default=-1, metadata={"kafka_type": "int32"})
    leader_recovery_state: int = field(default=0, metadata={"kafka_type": "int8", "tag": 0})
    leader_epoch: int = field(default=-1, metadata={"kafka_type": "int32"})
    partition_epoch: int = field(default=-1, metadata={"kafka_type": "int32"})
    directories: tuple[UUID | None, ...] = field(default=(), metadata={"kafka_type": "uuid"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecordV0(MetadataRecord):
    __api_key__: ClassVar[int] = 3
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(default=-1, metadata={"kafka_type": "int32"})
    topic_id: UUID = field(metadata={"kafka_type": "uuid"})
    replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    isr: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    removing_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    adding_replicas: tuple[int, ...] = field(metadata={"kafka_type": "int32"})
    leader: int = field(default=-1, metadata={"kafka_type": "int32"})
    leader_recovery_state: int = field(default=0, metadata={"kafka_type": "int8", "tag": 0})
    leader_epoch: int = field(default=-1, metadata={"kafka_type": "int32"})
    partition_epoch: int = field(default=-1, metadata={"kafka_type": "int32"})


VERSIONS: Final[dict[int, type[MetadataRecord]]] = {0: PartitionRecordV0, 1: PartitionRecordV1}
