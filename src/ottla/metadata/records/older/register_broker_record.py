"""Older versions of RegisterBrokerRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final
from uuid import UUID

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.register_broker_record import BrokerEndpoint, BrokerFeature


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecordV3(MetadataRecord):
    __api_key__: ClassVar[int] = 0
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 3
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecordV2(MetadataRecord):
    __api_key__: ClassVar[int] = 0
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 2
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecordV1(MetadataRecord):
    __api_key__: ClassVar[int] = 0
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 1
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    incarnation_id: UUID = field(metadata={"kafka_type": "uuid"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(metadata={"kafka_type": "string"})
    fenced: bool = field(default=True, metadata={"kafka_type": "bool"})
    in_controlled_shutdown: bool = field(default=False, metadata={"kafka_type": "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecordV0(MetadataRecord):
    __api_key__: ClassVar[int] = 0
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    broker_id: int = field(metadata={"kafka_type": "int32"})
    incarnation_id: UUID = field(metadata={"kafka_type": "uuid"})
    broker_epoch: int = field(metadata={"kafka_type": "int64"})
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...]
    rack: str | None = field(metadata={"kafka_type": "string"})
    fenced: bool = field(default=True, metadata={"kafka_type": "bool"})


VERSIONS: Final[dict[int, type[MetadataRecord]]] = {
    0: RegisterBrokerRecordV0,
    1: RegisterBrokerRecordV1,
    2: RegisterBrokerRecordV2,
    3: RegisterBrokerRecordV3,
}
