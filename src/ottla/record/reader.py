"""Reads batches and the records in them. Not for the broker's path: a Python loop over records."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.env.ports import Buffer
from ottla.record.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
)
from ottla.record.compression import decompress
from ottla.record.records import CorruptBatch, Headers, Record

DECOMPRESSED_LIMIT: Final = 256 * 1024 * 1024
_SMALLEST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD


def iterate_batches(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches at the start of `data`; a partial one at its end (Fetch answers have them) ends the walk.

    CorruptBatch where a header cannot be one. CRCs are not checked here.
    """
    view = memoryview(data)
    position = 0
    while position + HEADER_SIZE <= len(view):
        header = parse_header(view, position)
        if header.magic != MAGIC_V2:
            raise CorruptBatch(f"batch at byte {position} has magic {header.magic}, only 2 is known")
        if header.length < _SMALLEST_LENGTH:
            raise CorruptBatch(f"batch at byte {position} says it is {header.length} bytes long, less than a header")
        end = position + header.length + LOG_OVERHEAD
        if end > len(view):
            return
        yield header, view[position:end]
        position = end


def read_records(batch: Buffer, *, limit: int = DECOMPRESSED_LIMIT) -> list[Record]:
    """All records of one batch, decompressed, with absolute offsets and timestamps."""
    if len(batch) < HEADER_SIZE:
        raise CorruptBatch(f"{len(batch)} bytes are too few for a batch header")
    header = parse_header(batch)
    if header.magic != MAGIC_V2:
        raise CorruptBatch(f"magic {header.magic} at offset {header.base_offset}, only 2 is known")
    if header.length < _SMALLEST_LENGTH or header.size > len(batch):
        raise CorruptBatch(f"batch at offset {header.base_offset} says {header.size} bytes, {len(batch)} are there")
    body = decompress(header.attributes & CODEC_MASK, memoryview(batch)[HEADER_SIZE : header.size], limit=limit)
    try:
        return _parse(body, header)
    except IndexError as error:
        raise CorruptBatch(f"records of the batch at offset {header.base_offset} are damaged: {error}") from None


_make: Final = tuple.__new__  # what a NamedTuple does, without a call in between


class Entry(NamedTuple):
    """What a table made of records needs of one."""

    offset: int
    key: bytes | None
    value: bytes | None


def read_entries(header: BatchHeader, batch: Buffer) -> list[Entry]:
    """Of a batch from `iterate_batches`. A start reads them by the million, so most is done in place here."""
    body = memoryview(batch)[HEADER_SIZE : header.size]
    data = decompress(header.attributes & CODEC_MASK, body, limit=DECOMPRESSED_LIMIT)
    try:
        return _entries(data, header.base_offset, header.record_count)
    except IndexError as error:
        raise CorruptBatch(f"records of the batch at offset {header.base_offset} are damaged: {error}") from None


def _entries(data: bytes, base_offset: int, count: int) -> list[Entry]:
    entries: list[Entry] = []
    key: bytes | None
    value: bytes | None
    size, position = len(data), 0
    for _ in range(count):
        length, start = read_varint(data, position)
        end = start + length
        if length < 0 or end > size:
            raise CorruptBatch(f"record {len(entries)} of the batch at offset {base_offset} ends outside the batch")
        position = start + 2  # after the attributes and, if it is short, the timestamp
        if data[start + 1] >= 0x80:
            _, position = read_varint(data, start + 1)
        byte = data[position]
        if byte < 0x80:
            offset, position = base_offset + (byte >> 1), position + 1
        else:
            delta, position = read_varint(data, position)
            offset = base_offset + delta
        byte = data[position]
        if byte < 0x80 and not byte & 1:
            position += 1
            key, position = data[position : position + (byte >> 1)], position + (byte >> 1)
        else:
            key, position = _read_bytes(data, position, end)
        byte = data[position]
        if byte < 0x80 and not byte & 1:
            position += 1
            value, position = data[position : position + (byte >> 1)], position + (byte >> 1)
        else:
            value, position = _read_bytes(data, position, end)
        if position >= end:
            raise CorruptBatch(f"record {len(entries)} of the batch at offset {base_offset} is not as long as it says")
        entries.append(_make(Entry, (offset, key, value)))
        position = end
    if position != size:
        raise CorruptBatch(f"bytes after the last record of the batch at offset {base_offset}")
    return entries


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The zigzag number at a position, and where it ends. IndexError if the bytes end first."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise CorruptBatch("a number has more than ten bytes")


def _parse(data: bytes, header: BatchHeader) -> list[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    records: list[Record] = []
    position = 0
    for _ in range(header.record_count):
        length, start = read_varint(data, position)
        end = start + length
        if length < 0 or end > len(data):
            raise CorruptBatch(f"record {len(records)} of the batch at offset {base_offset} ends outside the batch")
        timestamp_delta, position = read_varint(data, start + 1)
        offset_delta, position = read_varint(data, position)
        key, position = _read_bytes(data, position, end)
        value, position = _read_bytes(data, position, end)
        header_count, position = read_varint(data, position)
        headers: Headers = ()
        if header_count:
            headers, position = _read_headers(data, position, end, header_count)
        if position != end:
            raise CorruptBatch(f"record {len(records)} of the batch at offset {base_offset} is not as long as it says")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        records.append(Record(key, value, timestamp, headers, base_offset + offset_delta))
    if position != len(data):
        raise CorruptBatch(f"bytes after the last record of the batch at offset {base_offset}")
    return records


def _read_bytes(data: bytes, position: int, limit: int) -> tuple[bytes | None, int]:
    length, position = read_varint(data, position)
    if length < 0:  # -1 as written by all; Java takes any negative length for null
        return None, position
    end = position + length
    if end > limit:
        raise CorruptBatch("a key or value ends outside its record")
    return data[position:end], end


def _read_headers(data: bytes, position: int, limit: int, count: int) -> tuple[Headers, int]:
    # a header takes at least two bytes: without this check a hostile count is a long loop
    if count < 0 or count > limit - position:
        raise CorruptBatch(f"a record says it has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(data, position, limit)
        if name is None:
            raise CorruptBatch("a header has no name")
        value, position = _read_bytes(data, position, limit)
        headers.append((name.decode(errors="replace"), value))  # as Java: a bad name must not hide the record
    return tuple(headers), position
