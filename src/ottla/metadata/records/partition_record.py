"""PartitionRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 3
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 2
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
    eligible_leader_replicas: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 1})
    last_known_elr: tuple[int, ...] | None = field(default=None, metadata={"kafka_type": "int32", "tag": 2})


RECORD: Final = PartitionRecord
