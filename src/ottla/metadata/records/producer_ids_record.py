"""ProducerIdsRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 15
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(default=-1, metadata={"kafka_type": "int64"})
    next_producer_id: int = field(metadata={"kafka_type": "int64"})


RECORD: Final = ProducerIdsRecord
