"""The header of a v2 record batch, as it lies in requests, in segments and in fetch answers.

offset  0  base offset            i64   } outside the CRC: the broker fills these in
        8  batch length           i32   } (counts everything after itself)
       12  partition leader epoch i32   }
       16  magic                  i8    2
       17  CRC-32C                u32   of everything after itself
       21  attributes             i16   bits: 0-2 codec, 3 append time, 4 transactional, 5 control, 6 delete horizon
       23  last offset delta      i32
       27  base timestamp         i64   (the delete horizon if bit 6 is set)
       35  max timestamp          i64
       43  producer id            i64
       51  producer epoch         i16
       53  base sequence          i32
       57  record count           i32
       61  records
"""

from enum import Enum, IntEnum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.env.ports import Buffer

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and length: what must be read to know how long the batch is
CRC_START: Final = 21
MAGIC_V2: Final = 2

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

_MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22  # the low byte
_SHORTEST_OF_ANY_MAGIC: Final = 14

_HEAD: Final = Struct(">qii")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def last_sequence(self) -> int:
        """Sequences are 31 bits wide and wrap to 0."""
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF if self.base_sequence >= 0 else -1


def parse_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position; struct.error if there are fewer than 61 bytes."""
    return BatchHeader._make(HEADER.unpack_from(data, position))


class BatchStart(Enum):
    """What records begin with, at the first look that Kafka takes."""

    NO_BATCH = "no whole batch"
    PLAIN = "a batch"
    TRANSACTIONAL = "a batch that is part of a transaction"
    DAMAGED = "something that cannot be one"


def batch_start(data: Buffer) -> BatchStart:
    size = len(data)
    if size < LOG_OVERHEAD:
        return BatchStart.NO_BATCH
    length = int.from_bytes(data[8:12], "big", signed=True)
    if length < _SHORTEST_OF_ANY_MAGIC:
        return BatchStart.DAMAGED
    if size <= _MAGIC_AT:
        return BatchStart.NO_BATCH
    magic = data[_MAGIC_AT]
    if magic > MAGIC_V2:
        return BatchStart.DAMAGED
    if length + LOG_OVERHEAD > size:
        return BatchStart.NO_BATCH
    is_transactional = magic == MAGIC_V2 and size > _ATTRIBUTES_AT and data[_ATTRIBUTES_AT] & TRANSACTIONAL_BIT
    return BatchStart.TRANSACTIONAL if is_transactional else BatchStart.PLAIN


def computed_crc(batch: Buffer) -> int:
    """What the CRC field must say. `batch` ends where the batch ends."""
    return int(crc32c(memoryview(batch)[CRC_START:]))


def new_head(base_offset: int, length: int, leader_epoch: int) -> bytes:
    """The first 16 bytes, which no checksum covers, with the broker's own values."""
    return _HEAD.pack(base_offset, length, leader_epoch)


def with_log_append_time(batch: Buffer, timestamp: int) -> bytearray:
    """The batch with the broker's time: attribute bit, max timestamp and CRC change, records stay as they are."""
    stamped = bytearray(batch)
    attributes = _ATTRIBUTES.unpack_from(stamped, 21)[0]
    _ATTRIBUTES.pack_into(stamped, 21, attributes | TIMESTAMP_TYPE_BIT)
    _MAX_TIMESTAMP.pack_into(stamped, 35, timestamp)
    _CRC.pack_into(stamped, 17, computed_crc(stamped))
    return stamped
