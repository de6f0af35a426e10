"""Metadata records to and from batches of `__cluster_metadata` and its snapshots."""

from collections.abc import Iterable
from dataclasses import fields
from operator import attrgetter
from struct import Struct
from typing import Final

from ottla.env.ports import Buffer
from ottla.metadata.record_codec import decode_record, encode_record, version_to_write
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record

_NUMBER: Final = Struct(">i")
_NUMBER_AT: Final = 3  # after the frame's version, the record's type and its version
_all_but_number: Final = attrgetter(*(field.name for field in fields(PartitionRecord) if field.name != "partition_id"))


def metadata_batch(
    records: Iterable[MetadataRecord],
    metadata_version: int,
    now_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    encode = _Encoder(metadata_version)
    return build_batch(
        [Record(None, encode(record), now_ms) for record in records], base_offset=base_offset, leader_epoch=leader_epoch
    )


class _Encoder:
    """A topic's partitions mostly differ in nothing but their number, the first field: the rest is written once."""

    def __init__(self, metadata_version: int) -> None:
        self._metadata_version = metadata_version
        self._alike: dict[tuple[object, ...], tuple[bytes, bytes]] = {}

    def __call__(self, record: MetadataRecord) -> bytes:
        if not isinstance(record, PartitionRecord):
            return self._encode(record)
        rest = _all_but_number(record)
        around = self._alike.get(rest)
        if around is None:
            value = self._encode(record)
            around = self._alike[rest] = value[:_NUMBER_AT], value[_NUMBER_AT + _NUMBER.size :]
        return around[0] + _NUMBER.pack(record.partition_id) + around[1]

    def _encode(self, record: MetadataRecord) -> bytes:
        return encode_record(record, version_to_write(record, self._metadata_version))


def batch_records(batch: Buffer) -> list[MetadataRecord]:
    """The records of a batch that is not a control batch. RecordError, CorruptBatch if they cannot be read."""
    return [decode_record(record.value).record for record in read_records(batch)]
