"""AccessControlEntryRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 18
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    id: UUID = field(metadata={"kafka_type": "uuid"})
    resource_type: int = field(metadata={"kafka_type": "int8"})
    resource_name: str = field(metadata={"kafka_type": "string"})
    pattern_type: int = field(metadata={"kafka_type": "int8"})
    principal: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    operation: int = field(metadata={"kafka_type": "int8"})
    permission_type: int = field(metadata={"kafka_type": "int8"})


RECORD: Final = AccessControlEntryRecord
