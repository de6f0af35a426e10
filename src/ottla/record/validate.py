"""What a leader checks of a batch that a client produced, and which error each fault gives.

Two depths. `check_produced` looks at the header and the CRC only, for every batch. `walk_records` looks at every
record and runs where a config asks for it (`BatchRules.needs_walk`): compacted topics, because null keys are refused
there, and a finite message.timestamp.before.max.ms, because the oldest timestamp is in no header. It is a plain
function of bytes, so that it can run in another process.

Codes and their order follow Apache Kafka (ProduceRequest, UnifiedLog and LogValidator). Stricter than Kafka, on
purpose: bytes after the batch are refused where Kafka cuts off a partial batch; the LogAppendTime bit is always
refused where Kafka clears it on CreateTime topics; offset deltas that do not count up from 0 are refused where Kafka
rebuilds the batch.
"""

from struct import error as StructError
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    BatchStart,
    Codec,
    batch_start,
    computed_crc,
    parse_header,
)
from ottla.record.compression import decompress
from ottla.record.reader import DECOMPRESSED_LIMIT, read_varint
from ottla.record.records import BatchTooLarge, CorruptBatch

UNBOUNDED_MS: Final = 2**63 - 1
AS_PRODUCED: Final = -1
ZSTD_SINCE: Final = 7  # the first version of Produce whose clients may send zstd (KIP-110)

_SMALLEST_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD
_MAGIC_AT: Final = 16
_CODEC_AT: Final = 22  # the low byte of the attributes
_SMALLEST_RECORD: Final = 7
_LAST_CODEC: Final = Codec.ZSTD
_SMALL_BYTES: Final = 4096
_MAX_RECORD_ERRORS: Final = 100  # of one batch, in the answer: a hostile batch must not make a large one


class BatchRules(NamedTuple):
    """What a topic's configuration says about batches."""

    max_bytes: int = 1_048_588
    compacted: bool = False
    log_append_time: bool = False
    before_max_ms: int = UNBOUNDED_MS
    after_max_ms: int = 3_600_000
    codec: int = AS_PRODUCED
    """What batches are stored with (compression.type)."""
    level: int | None = None

    @property
    def needs_walk(self) -> bool:
        return self.compacted or (self.before_max_ms < UNBOUNDED_MS and not self.log_append_time)


class Rejected(NamedTuple):
    code: ErrorCode
    message: str
    records: tuple[tuple[int, str], ...] = ()  # index and reason of single records (KIP-467)
    tells_start: bool = True  # whether the answer has the log's start offset: not if the log was never asked


class Walked(NamedTuple):
    """What only a walk can tell of a good batch."""

    max_timestamp: int
    plain_size: int


def check_produced(data: Buffer, rules: BatchRules, now_ms: int, version: int = 13) -> BatchHeader | Rejected:
    """The header of the one batch that `data` is, or why it is refused. `version` is that of the Produce request."""
    try:
        fields = HEADER.unpack_from(data)
    except StructError:
        return _bad_frame(data, version)
    (
        base_offset,
        length,
        _leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        _base_timestamp,
        max_timestamp,
        producer_id,
        _producer_epoch,
        base_sequence,
        count,
    ) = fields
    size = length + LOG_OVERHEAD
    if magic != MAGIC_V2 or length < _SMALLEST_LENGTH or size != len(data):
        return _bad_frame(data, version)
    codec = attributes & CODEC_MASK
    if codec == Codec.ZSTD and version < ZSTD_SINCE:
        return _zstd_too_early(version)
    if base_offset != 0:
        return Rejected(ErrorCode.invalid_record, f"base offset of a produced batch must be 0, not {base_offset}")
    if size > rules.max_bytes:
        return Rejected(
            ErrorCode.message_too_large,
            f"batch of {size} bytes is larger than the {rules.max_bytes} that max.message.bytes allows",
            tells_start=False,
        )
    if crc32c(memoryview(data)[CRC_START:]) != crc:
        message = f"stored CRC {crc} does not match the batch's bytes"
        return Rejected(ErrorCode.corrupt_message, message, tells_start=False)
    if codec > _LAST_CODEC:
        return Rejected(ErrorCode.unknown_server_error, f"unknown compression codec {codec}")
    if count <= 0 or last_offset_delta != count - 1:
        return Rejected(
            ErrorCode.invalid_record, f"record count {count} and last offset delta {last_offset_delta} do not agree"
        )
    if codec == 0 and count * _SMALLEST_RECORD > size - HEADER_SIZE:
        return Rejected(ErrorCode.invalid_record, f"{count} records do not fit into {size - HEADER_SIZE} bytes")
    if attributes & CONTROL_BIT:
        return Rejected(ErrorCode.invalid_record, "clients may not write control records")
    if producer_id >= 0 and base_sequence < 0:
        return Rejected(ErrorCode.invalid_record, f"producer {producer_id} sent sequence {base_sequence}, less than 0")
    if attributes & TIMESTAMP_TYPE_BIT:
        return Rejected(ErrorCode.invalid_timestamp, "only the broker may set the timestamp type to LogAppendTime")
    if max_timestamp - now_ms > rules.after_max_ms and not rules.log_append_time:
        return _too_late(data, rules, now_ms, max_timestamp)
    return BatchHeader._make(fields)


def _too_late(data: Buffer, rules: BatchRules, now_ms: int, max_timestamp: int) -> Rejected:
    """With the records that are, if looking for them takes no time to speak of (KIP-467)."""
    if len(data) <= _SMALL_BYTES:
        walked = walk_records(data, rules, now_ms, limit=_SMALL_BYTES * 16)
        if isinstance(walked, Rejected) and walked.code is ErrorCode.invalid_timestamp:
            return walked
    return Rejected(
        ErrorCode.invalid_timestamp,
        f"timestamp {max_timestamp} is later than {now_ms + rules.after_max_ms}, the latest that"
        " message.timestamp.after.max.ms allows now",
    )


def wrong_at_first_sight(data: Buffer, version: int) -> Rejected | None:
    """What Kafka finds wrong with records before it asks the log, or looks at acks."""
    match batch_start(data):
        case BatchStart.DAMAGED:
            return _not_one_batch(ErrorCode.corrupt_message, f"{len(data)} bytes cannot be a batch")
        case BatchStart.NO_BATCH:
            return _not_one_batch(ErrorCode.invalid_record, f"{len(data)} bytes hold no whole batch")
    if (magic := data[_MAGIC_AT]) != MAGIC_V2:
        return _not_one_batch(ErrorCode.invalid_record, f"batch has magic {magic}; only 2 may be produced")
    if version < ZSTD_SINCE and len(data) > _CODEC_AT and data[_CODEC_AT] & CODEC_MASK == Codec.ZSTD:
        return _zstd_too_early(version)
    size = int.from_bytes(data[8:12], "big") + LOG_OVERHEAD
    match batch_start(memoryview(data)[size:]):
        case BatchStart.DAMAGED:
            return _not_one_batch(ErrorCode.corrupt_message, f"what follows after {size} bytes cannot be a batch")
        case BatchStart.PLAIN | BatchStart.TRANSACTIONAL:
            return _not_one_batch(ErrorCode.invalid_record, "each partition takes exactly one batch")
    return None


def has_unknown_codec(data: Buffer) -> bool:
    return (
        batch_start(data) in (BatchStart.PLAIN, BatchStart.TRANSACTIONAL)
        and data[_MAGIC_AT] == MAGIC_V2
        and len(data) > _CODEC_AT
        and data[_CODEC_AT] & CODEC_MASK > _LAST_CODEC
    )


def _not_one_batch(code: ErrorCode, message: str) -> Rejected:
    return Rejected(code, message, tells_start=False)


def _zstd_too_early(version: int) -> Rejected:
    message = f"Produce version {version} cannot carry zstd; version {ZSTD_SINCE} and later can"
    return Rejected(ErrorCode.unsupported_compression_type, message, tells_start=False)


def _bad_frame(data: Buffer, version: int) -> Rejected:
    if (wrong := wrong_at_first_sight(data, version)) is not None:
        return wrong
    size = int.from_bytes(data[8:12], "big") + LOG_OVERHEAD
    if size < HEADER_SIZE:
        return _not_one_batch(ErrorCode.corrupt_message, f"batch says it is {size} bytes long, less than its header")
    if computed_crc(memoryview(data)[:size]) != int.from_bytes(data[17:21], "big"):
        return _not_one_batch(ErrorCode.corrupt_message, f"batch says it is {size} bytes long, its CRC says otherwise")
    return _not_one_batch(ErrorCode.invalid_record, f"{len(data) - size} bytes follow the batch")


def walk_records(
    batch: Buffer, rules: BatchRules, now_ms: int, *, limit: int = DECOMPRESSED_LIMIT
) -> Walked | Rejected:
    """Checks every record of a batch that `check_produced` let through."""
    header = parse_header(batch)
    plain = plain_records(batch, header, limit)
    return plain if isinstance(plain, Rejected) else walk_plain(plain, header, rules, now_ms)


def plain_records(batch: Buffer, header: BatchHeader, limit: int = DECOMPRESSED_LIMIT) -> bytes | Rejected:
    try:
        return decompress(header.codec, memoryview(batch)[HEADER_SIZE:], limit=limit)
    except BatchTooLarge as error:
        return Rejected(ErrorCode.message_too_large, str(error))
    except CorruptBatch as error:
        return Rejected(ErrorCode.unknown_server_error, str(error))


def walk_plain(plain: bytes, header: BatchHeader, rules: BatchRules, now_ms: int) -> Walked | Rejected:
    try:
        if rules.log_append_time:
            earliest, latest = -UNBOUNDED_MS, UNBOUNDED_MS
        else:
            earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
        return _walk(plain, header, rules.compacted, earliest, latest)
    except (CorruptBatch, IndexError) as error:
        return Rejected(ErrorCode.invalid_record, f"records are damaged: {error}")


def _walk(data: bytes, header: BatchHeader, keys_needed: bool, earliest: int, latest: int) -> Walked | Rejected:
    """One pass, one-byte numbers inline: nearly every number of a record is one byte long, and calls cost most."""
    base_timestamp = header.base_timestamp
    max_timestamp = -1
    size = len(data)
    position = 0
    faults: list[tuple[int, str]] = []
    code = ErrorCode.invalid_record
    for index in range(header.record_count):
        number = data[position]
        if number < 0x80:
            start = position + 1
            end = start + (number >> 1) if not number & 1 else -1
        else:
            number, start = read_varint(data, position)
            end = start + number
        if not start < end <= size:
            raise CorruptBatch(f"record {index} ends outside the batch")
        number = data[start + 1]  # after the attributes, of which no bit is used
        if number < 0x80:
            position = start + 2
            timestamp = base_timestamp + ((number >> 1) ^ -(number & 1))
        else:
            number, position = read_varint(data, start + 1)
            timestamp = base_timestamp + number
        number = data[position]
        if number < 0x80:
            position += 1
            number = (number >> 1) ^ -(number & 1)
        else:
            number, position = read_varint(data, position)
        if number != index:
            raise CorruptBatch(f"record {index} says it is record {number}")
        number = data[position]
        if number < 0x80:
            position += 1
            number = (number >> 1) ^ -(number & 1)
        else:
            number, position = read_varint(data, position)
        if number > 0:
            position += number
        elif number < 0 and keys_needed:
            faults.append((index, "a compacted topic takes no record without a key"))
        number = data[position]
        if number < 0x80:
            position += 1
            number = (number >> 1) ^ -(number & 1)
        else:
            number, position = read_varint(data, position)
        if number > 0:
            position += number
        if data[position]:
            position = _skip_headers(data, position, end)
        else:
            position += 1
        if position != end:
            raise CorruptBatch(f"record {index} is not as long as it says")
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if timestamp != -1 and not earliest <= timestamp <= latest:
            code = ErrorCode.invalid_timestamp
            faults.append((index, f"timestamp {timestamp} is not between {earliest} and {latest}"))
    if position != size:
        raise CorruptBatch(f"{size - position} bytes follow the last of {header.record_count} records")
    if faults:
        what = "timestamps out of range" if code == ErrorCode.invalid_timestamp else "no key on a compacted topic"
        message = f"{len(faults)} of {header.record_count} records refused: {what}; first, record {faults[0][0]}"
        return Rejected(code, message, tuple(faults[:_MAX_RECORD_ERRORS]))
    return Walked(max_timestamp, size)


def _skip_headers(data: bytes, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    if count < 0 or count > end - position:
        raise CorruptBatch(f"a record says it has {count} headers")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise CorruptBatch("a header has no name")
        length, position = read_varint(data, position + length)
        if length > 0:
            position += length
    return position
