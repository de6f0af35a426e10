"""ClientQuotaRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    entity_type: str = field(metadata={"kafka_type": "string"})
    entity_name: str | None = field(metadata={"kafka_type": "string"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 14
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    entity: tuple[EntityData, ...]
    key: str = field(metadata={"kafka_type": "string"})
    value: float = field(metadata={"kafka_type": "float64"})
    remove: bool = field(metadata={"kafka_type": "bool"})


RECORD: Final = ClientQuotaRecord
