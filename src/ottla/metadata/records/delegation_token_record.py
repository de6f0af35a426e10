"""DelegationTokenRecord: generated from Apache Kafka 4.3.0 by tools/generate_records.py."""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.static.constants import EntityType

from ottla.metadata.records.base import MetadataRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord(MetadataRecord):
    __api_key__: ClassVar[int] = 10
    __type__: ClassVar[EntityType] = EntityType.data
    __version__: ClassVar[int] = 0
    __flexible__: ClassVar[bool] = True
    owner: str = field(metadata={"kafka_type": "string"})
    requester: str = field(metadata={"kafka_type": "string"})
    renewers: tuple[str, ...] = field(metadata={"kafka_type": "string"})
    issue_timestamp: int = field(metadata={"kafka_type": "int64"})
    max_timestamp: int = field(metadata={"kafka_type": "int64"})
    expiration_timestamp: int = field(metadata={"kafka_type": "int64"})
    token_id: str = field(metadata={"kafka_type": "string"})


RECORD: Final = DelegationTokenRecord
