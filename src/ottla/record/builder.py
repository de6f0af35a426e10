"""Builds v2 batches from records: for internal topics, tools and tests. A client's batches are stored as they come."""

from collections.abc import Iterable, Sequence
from struct import Struct
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
_BEFORE_SUM: Final = Struct(">qiibI")  # the header up to the CRC, and what that is of
_SUMMED: Final = Struct(">hiqqqhii")


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
    records: Sequence[tuple[bytes, bytes | None]],
    timestamp: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    *,
    control: bool = False,
) -> bytes:
    """Keys and values of one moment; no more to say. Coordinators write many small ones of these.

    With a producer, it is part of the transaction that this one has open.
    """
    count = len(records)
    attributes = (TRANSACTIONAL_BIT if producer_id >= 0 else 0) | (CONTROL_BIT if control else 0)
    parts = [_SUMMED.pack(attributes, count - 1, timestamp, timestamp, producer_id, producer_epoch, -1, count)]
    for delta, (key, value) in enumerate(records):
        number, key_size = varint(delta), varint(len(key))
        if value is None:
            value, value_size = b"", _NULL
        else:
            value_size = varint(len(value))
        size = len(number) + len(key_size) + len(key) + len(value_size) + len(value) + 3
        # No attributes and no later than the batch, and at the end no headers.
        parts += varint(size), b"\x00\x00", number, key_size, key, value_size, value, b"\x00"
    summed = b"".join(parts)
    return _BEFORE_SUM.pack(0, _BEFORE_SUM.size - LOG_OVERHEAD + len(summed), -1, MAGIC_V2, crc32c(summed)) + summed


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
    return _SMALL[value] if 0 <= value < _FEW else _varint(value)


def _varint(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_FEW: Final = 512
_SMALL: Final = [_varint(value) for value in range(_FEW)]
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
