"""The file `bootstrap.checkpoint`: the records a new cluster begins with, written by `storage format`.

It has the form of a metadata snapshot: a control batch with a header, batches of records, a control batch with a
footer.
"""

from collections.abc import Sequence
from typing import Final

from ottla.env.files import read_file, write_atomically
from ottla.env.ports import Disk
from ottla.metadata.batches import batch_records, metadata_batch
from ottla.metadata.record_codec import RecordError
from ottla.metadata.records.base import MetadataRecord
from ottla.model.errors import OttlaError
from ottla.raft.control_records import ControlType, control_type, snapshot_footer_batch, snapshot_header_batch
from ottla.record.batch import computed_crc, new_head, parse_header
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import CorruptBatch

FILE_NAME: Final = "bootstrap.checkpoint"
_EPOCH: Final = 0


def encode(records: Sequence[MetadataRecord], metadata_version: int, now_ms: int) -> bytes:
    batches = [snapshot_header_batch(0, now_ms)]
    if records:
        batches.append(metadata_batch(records, metadata_version, now_ms))
    batches.append(snapshot_footer_batch(now_ms))
    out = bytearray()
    offset = 0
    for batch in batches:
        header = parse_header(batch)
        head = new_head(offset, header.length, _EPOCH)
        out += head + batch[len(head) :]
        offset += header.record_count
    return bytes(out)


def decode(data: bytes, source: str = FILE_NAME) -> tuple[MetadataRecord, ...]:
    """OttlaError if the file is cut or damaged: a cluster must not begin with half of its first records."""
    records: list[MetadataRecord] = []
    kinds: list[int] = []
    try:
        for header, batch in iterate_batches(data):
            if header.crc != computed_crc(batch):
                raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
            if header.is_control:
                kinds += (control_type(record) for record in read_records(batch))
            else:
                records += batch_records(batch)
    except (CorruptBatch, RecordError) as error:
        raise OttlaError(f"{source} is damaged: {error}. Format the storage again.") from error
    if kinds[:1] != [ControlType.SNAPSHOT_HEADER] or kinds[-1:] != [ControlType.SNAPSHOT_FOOTER]:
        raise OttlaError(f"{source} has no header or no footer: it was cut. Format the storage again.")
    return tuple(records)


def load(disk: Disk, folder: str) -> tuple[MetadataRecord, ...] | None:
    path = f"{folder}/{FILE_NAME}"
    return decode(read_file(disk, path), path) if disk.exists(path) else None


def store(disk: Disk, folder: str, records: Sequence[MetadataRecord], metadata_version: int, now_ms: int) -> None:
    """Durable when it returns; blocks on fsync."""
    write_atomically(disk, f"{folder}/{FILE_NAME}", encode(records, metadata_version, now_ms))
