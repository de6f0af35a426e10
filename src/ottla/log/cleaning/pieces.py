"""A segment's file in pieces that end with a whole batch, read no faster than allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ottla.env.ports import File, Workplace
from ottla.log.cleaning.contract import CorruptSegment
from ottla.log.cleaning.transactions import Marker
from ottla.log.scan import ABORT, COMMIT, CONTROL_KEY
from ottla.record.batch import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD, BatchHeader, computed_crc, parse_header
from ottla.record.compression import decompress
from ottla.record.reader import DECOMPRESSED_LIMIT, read_records
from ottla.record.records import CorruptBatch

_SMALLEST_PIECE: Final = 64 * 1024
_LONGEST_REST_S: Final = 1.0


class Pace:
    """log.cleaner.io.max.bytes.per.second, over what is read and what is written."""

    def __init__(self, place: Workplace, bytes_per_second: float) -> None:
        self._place = place
        self._rate = max(bytes_per_second, 1.0)
        self._began = place.elapsed()
        self._bytes = 0

    def let_others(self) -> None:
        """After every piece, and every batch that is unpacked: what waits in the node waits no longer than for that."""
        self._place.let_others()

    def take(self, count: int) -> None:
        self._bytes += count
        while (ahead := self._bytes / self._rate - (self._place.elapsed() - self._began)) > 0:
            self._place.rest(min(ahead, _LONGEST_REST_S))


def in_pieces(file: File, size: int, buffer_bytes: int, pace: Pace, use: Callable[[Any], int | None]) -> bool:
    """`use` gets pieces and says how many bytes of each it used, at least one batch; None ends it, and gives False."""
    usual = max(buffer_bytes, _SMALLEST_PIECE)
    position, wanted = 0, usual
    while position < size:
        data = file.pread(min(wanted, size - position), position)
        pace.take(len(data))
        pace.let_others()
        used = use(np.frombuffer(data, dtype=np.uint8))
        if used is None:
            return False
        if used:
            position, wanted = position + used, usual
            continue
        needed = LOG_OVERHEAD + int.from_bytes(data[8:12], "big", signed=True) if len(data) >= HEADER_SIZE else 0
        if needed <= len(data) or needed > size - position:
            raise damaged(file, position)
        wanted = needed
    return True


def damaged(file: File, position: int) -> CorruptSegment:
    return CorruptSegment(f"{file.path}: there is no sound batch at position {position}")


def checked_header(data: Any, at: int, file: File, *, verify: bool = True) -> BatchHeader:
    """Of a whole batch. CorruptSegment if its checksum is wrong."""
    header = parse_header(data, at)
    if verify and computed_crc(data[at : at + header.size]) != header.crc:
        raise CorruptSegment(f"{file.path}: the checksum of the batch at offset {header.base_offset} is wrong")
    return header


def records_of(data: Any, at: int, header: BatchHeader, file: File) -> Any:
    """The records of a batch, decompressed, as an array."""
    body = data[at + HEADER_SIZE : at + header.size]
    codec = header.attributes & CODEC_MASK
    if not codec or not header.record_count:
        return body
    try:
        return np.frombuffer(decompress(codec, memoryview(body), limit=DECOMPRESSED_LIMIT), dtype=np.uint8)
    except CorruptBatch as error:
        raise CorruptSegment(f"{file.path}: the batch at offset {header.base_offset}: {error}") from None


def marker_of(data: Any, at: int, header: BatchHeader, file: File) -> Marker:
    try:
        records = read_records(memoryview(data[at : at + header.size]))
    except CorruptBatch as error:
        raise CorruptSegment(f"{file.path}: {error}") from None
    if not records:
        return Marker.EMPTIED
    key = records[0].key
    kind = CONTROL_KEY.unpack_from(key)[1] if key is not None and len(key) >= CONTROL_KEY.size else -1
    return {ABORT: Marker.ABORT, COMMIT: Marker.COMMIT}.get(kind, Marker.OTHER)
