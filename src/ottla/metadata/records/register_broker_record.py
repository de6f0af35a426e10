"""RegisterBrokerRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[int] = 4
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    host: str = field(metadata={"kafka_type": "string"})
    port: int = field(metadata={"kafka_type": "uint16"})
    security_protocol: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    __type__: ClassVar[EntityType] = EntityType.nested
    __version__: ClassVar[int] = 4
    __flexible__: ClassVar[bool] = True
    name: str = field(metadata={"kafka_type": "string"})
    min_supported_version: int = field(metadata={"kafka_type": "int16"})
    max_supported_version: int = field(metadata={"kafka_type": "int16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 0
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 4
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    is_migrating_zk_broker: bool = field(default=False, metadata={"kafka_type": "bool"})
    incarnation_id: UUID = field(metadata={"kafka_type": "uuid"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(metadata={"kafka_type": "string"})
    fenced: bool = field(default=True, metadata={"kafka_type": "bool"})
    in_controlled_shutdown: bool = field(default=False, metadata={"kafka_type": "bool"})
    log_dirs: tuple[UUID | None, ...] = field(default=(), metadata={"kafka_type": "uuid", "tag": 0})
    cordoned_log_dirs: tuple[UUID | None, ...] | None = field(default=None, metadata={"kafka_type": "uuid", "tag": 1})


RECORD: Final = RegisterBrokerRecord
