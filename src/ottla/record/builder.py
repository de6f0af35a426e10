"""Builds v2 batches from records: for internal topics, tools and tests. A client's batches are stored as they come."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.record.batch import (
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Codec,
    TimestampType,
)
from ottla.record.compression import compress
from ottla.record.records import Headers, Record

_CRC_POSITION: Final = 17
_CRC_START: Final = 21


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One batch. Records get consecutive offsets from `base_offset` on; the offset they carry is not looked at."""
    listed = list(records)
    if not listed:
        raise ValueError("a batch needs at least one record")
    base_timestamp = listed[0].timestamp
    body = bytearray()
    for delta, record in enumerate(listed):
        _append_record(body, delta, record, base_timestamp)
    attributes = (
        codec
        | (TIMESTAMP_TYPE_BIT if timestamp_type == TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    batch = _Batch(
        len(listed),
        base_timestamp,
        max(record.timestamp for record in listed),
        base_offset,
        leader_epoch,
        attributes,
        producer_id,
        producer_epoch,
        base_sequence,
    )
    return batch.around(body if codec == Codec.NONE else compress(codec, body))


def build_plain_batch(
    records: Sequence[tuple[bytes, bytes | None]], timestamp: int, producer_id: int = -1, producer_epoch: int = -1
) -> bytes:
    """Keys and values of one moment; no more to say. Coordinators write many small ones of these.

    With a producer, it is part of the transaction that this one has open.
    """
    parts: list[bytes] = []
    for delta, (key, value) in enumerate(records):
        start = b"\x00\x00" + varint(delta) + varint(len(key)) + key  # no attributes, no later than the batch
        end = _NULL + b"\x00" if value is None else varint(len(value)) + value + b"\x00"  # no headers
        parts += varint(len(start) + len(end)), start, end
    attributes = TRANSACTIONAL_BIT if producer_id >= 0 else 0
    batch = _Batch(len(records), timestamp, timestamp, 0, -1, attributes, producer_id, producer_epoch)
    return batch.around(b"".join(parts))


def plain_record_size(delta: int, key: int, value: int) -> int:
    """How many bytes a record is in such a batch, by its place and the sizes of its key and value."""
    size = 3 + len(varint(delta)) + len(varint(key)) + key + len(varint(value)) + value
    return len(varint(size)) + size


class _Batch(NamedTuple):
    records: int
    base_timestamp: int
    max_timestamp: int
    base_offset: int = 0
    leader_epoch: int = -1
    attributes: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    def around(self, packed: bytes | bytearray) -> bytes:
        batch = bytearray(HEADER_SIZE)
        HEADER.pack_into(
            batch,
            0,
            self.base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(packed),
            self.leader_epoch,
            MAGIC_V2,
            0,
            self.attributes,
            self.records - 1,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.records,
        )
        batch += packed
        batch[_CRC_POSITION:_CRC_START] = crc32c(memoryview(batch)[_CRC_START:]).to_bytes(4, "big")
        return bytes(batch)


def varint(value: int) -> bytes:
    """A signed number in zigzag, seven bits a byte, low bits first."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    if rest < 0x80:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_ONE_BYTE: Final = [bytes((value,)) for value in range(0x80)]
_NULL: Final = varint(-1)


def _append_record(batch: bytearray, delta: int, record: Record, base_timestamp: int) -> None:
    key, value, timestamp, headers, _ = record
    body = b"".join(
        (
            b"\x00",  # attributes: no bit has a meaning yet
            varint(timestamp - base_timestamp),
            varint(delta),
            _NULL if key is None else varint(len(key)) + key,
            _NULL if value is None else varint(len(value)) + value,
            _headers(headers) if headers else b"\x00",
        )
    )
    batch += varint(len(body))
    batch += body


def _headers(headers: Headers) -> bytes:
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode()
        parts += varint(len(encoded)), encoded
        parts += (_NULL,) if value is None else (varint(len(value)), value)
    return b"".join(parts)
