"""Metadata records to and from batches of `__cluster_metadata` and its snapshots."""

from collections.abc import Iterable

from ottla.env.ports import Buffer
from ottla.metadata.record_codec import decode_record, encode_record, version_to_write
from ottla.metadata.records.base import MetadataRecord
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record


def metadata_batch(
    records: Iterable[MetadataRecord],
    metadata_version: int,
    now_ms: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    values = (encode_record(record, version_to_write(record, metadata_version)) for record in records)
    return build_batch(
        [Record(None, value, now_ms) for value in values], base_offset=base_offset, leader_epoch=leader_epoch
    )


def batch_records(batch: Buffer) -> list[MetadataRecord]:
    """The records of a batch that is not a control batch. RecordError, CorruptBatch if they cannot be read."""
    return [decode_record(record.value).record for record in read_records(batch)]
