"""Reads a segment's file batch by batch, in large pieces, by blocking reads: for recovery, rebuilding and replay."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.env.ports import File
from ottla.log.producers import EndMarker
from ottla.record.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, BatchHeader, parse_header
from ottla.record.reader import read_records

_PIECE: Final = 4 * 1024 * 1024
CONTROL_KEY: Final = Struct(">hh")
END_MARKER: Final = Struct(">hi")
ABORT, COMMIT = 0, 1


class ScannedBatch(NamedTuple):
    position: int
    header: BatchHeader
    data: memoryview


def good_batches(file: File, position: int, size: int, next_offset: int) -> Iterator[ScannedBatch]:
    """Batches with a right checksum and rising offsets; ends at the first byte that is none of one."""
    for batch in batches(file, position, size):
        header = batch.header
        if header.magic != MAGIC_V2 or header.base_offset < next_offset or header.last_offset_delta < 0:
            return
        if crc32c(batch.data[CRC_START:]) != header.crc:
            return
        next_offset = header.next_offset
        yield batch


def batches(file: File, position: int, size: int) -> Iterator[ScannedBatch]:
    """Whatever has the frame of a batch, unchecked; ends where there is no room for one of the length it says."""
    wanted = _PIECE
    while position + HEADER_SIZE <= size:
        piece = memoryview(file.pread(min(wanted, size - position), position))
        at, end = 0, len(piece)
        wanted = _PIECE
        while at + HEADER_SIZE <= end:
            header = parse_header(piece, at)
            batch_end = at + header.length + LOG_OVERHEAD
            if header.length < HEADER_SIZE - LOG_OVERHEAD or position + batch_end > size:
                return
            if batch_end > end:
                wanted = max(_PIECE, batch_end - at)
                break
            yield ScannedBatch(position + at, header, piece[at:batch_end])
            at = batch_end
        if at == 0 and wanted <= end:
            return
        position += at


def end_marker(batch: ScannedBatch) -> EndMarker | None:
    """What a control batch says of its producer's transaction; None for other control records and emptied batches."""
    for record in read_records(batch.data):
        if record.key is None or record.value is None or len(record.key) < 4 or len(record.value) < 6:
            return None
        kind = CONTROL_KEY.unpack_from(record.key)[1]
        if kind in (ABORT, COMMIT):
            return EndMarker(kind == COMMIT, END_MARKER.unpack_from(record.value)[1], record.timestamp)
        return None
    return None
