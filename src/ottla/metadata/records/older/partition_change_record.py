"""Older versions of PartitionChangeRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecordV1(MetadataRecord):
    __api_key__: ClassVar[int] = 5
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 1
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(default=-1, metadata={"kafka_type": "int32"})
    topic_id: UUID = field(metadata={"kafka_type": "uuid"})
    isr: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 0})
    leader: int = field(default=-2, metadata={"kafka_type": "int32", "tag": 1})
    replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 2})
    removing_replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 3})
    adding_replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 4})
    leader_recovery_state: int = field(default=-1, metadata={"kafka_type": "int8", "tag": 5})
    directories: tuple[UUID | None, ...] | None = field(default=None, metadata={"kafka_type": "uuid", "tag": 8})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecordV0(MetadataRecord):
    __api_key__: ClassVar[int] = 5
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    partition_id: int = field(default=-1, metadata={"kafka_type": "int32"})
    topic_id: UUID = field(metadata={"kafka_type": "uuid"})
    isr: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 0})
    leader: int = field(default=-2, metadata={"kafka_type": "int32", "tag": 1})
    replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 2})
    removing_replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 3})
    adding_replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 4})
    leader_recovery_state: int = field(default=-1, metadata={"kafka_type": "int8", "tag": 5})


VERSIONS: Final[dict[int, type[MetadataRecord]]] = {0: PartitionChangeRecordV0, 1: PartitionChangeRecordV1}
