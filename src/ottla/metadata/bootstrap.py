"""The file `bootstrap.checkpoint`: the records a new cluster begins with, written by `storage format`.

It has the form of a metadata snapshot (raft/snapshot_format.py).
"""

from collections.abc import Sequence
from typing import Final

from ottla.env.files import read_file, write_atomically
from ottla.env.ports import Disk
from ottla.metadata.batches import batch_records, metadata_batch
from ottla.metadata.record_codec import RecordError
from ottla.metadata.records.base import MetadataRecord
from ottla.model.errors import OttlaError
from ottla.raft import snapshot_format
from ottla.record.records import CorruptBatch

FILE_NAME: Final = "bootstrap.checkpoint"
_ADVICE: Final = "Format the storage again."


def encode(records: Sequence[MetadataRecord], metadata_version: int, now_ms: int) -> bytes:
    return snapshot_format.encode([metadata_batch(records, metadata_version, now_ms)] if records else [], now_ms)


def decode(data: bytes, source: str = FILE_NAME) -> tuple[MetadataRecord, ...]:
    """OttlaError if the file is cut or damaged: a cluster must not begin with half of its first records."""
    contents = snapshot_format.decode(data, source, _ADVICE)
    try:
        return tuple(record for batch in contents.batches for record in batch_records(batch))
    except (CorruptBatch, RecordError) as error:
        raise OttlaError(f"{source} is damaged: {error}. {_ADVICE}") from error


def load(disk: Disk, folder: str) -> tuple[MetadataRecord, ...] | None:
    path = f"{folder}/{FILE_NAME}"
    return decode(read_file(disk, path), path) if disk.exists(path) else None


def store(disk: Disk, folder: str, records: Sequence[MetadataRecord], metadata_version: int, now_ms: int) -> None:
    """Durable when it returns; blocks on fsync."""
    write_atomically(disk, f"{folder}/{FILE_NAME}", encode(records, metadata_version, now_ms))
