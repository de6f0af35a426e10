"""BrokerRegistrationChangeRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 17
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 3
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    fenced: int = field(default=0, metadata={"kafka_type": "int8", "tag": 0})
    in_controlled_shutdown: int = field(default=0, metadata={"kafka_type": "int8", "tag": 1})
    log_dirs: tuple[UUID | None, ...] = field(default=(), metadata={"kafka_type": "uuid", "tag": 2})
    cordoned_log_dirs: tuple[UUID | None, ...] | None = field(default=None, metadata={"kafka_type": "uuid", "tag": 3})


RECORD: Final = BrokerRegistrationChangeRecord
