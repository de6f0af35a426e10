"""A client's batch, stored with another codec than it came with (compression.type).

As in Kafka every record is looked at on the way. The records themselves stay as they are: only what is around them is
made anew. Plain functions of bytes, so that they can run in another process.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.record.batch import CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD, computed_crc, parse_header
from ottla.record.compression import compress
from ottla.record.validate import BatchRules, Rejected, plain_records, walk_plain

_LENGTH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_LENGTH_AT, _CRC_AT, _ATTRIBUTES_AT = 8, 17, 21


def recompressed(batch: Buffer, rules: BatchRules, now_ms: int) -> bytes | Rejected:
    """The batch with the codec of the rules, or why it is refused."""
    header = parse_header(batch)
    plain = plain_records(batch, header)
    if isinstance(plain, Rejected):
        return plain
    walked = walk_plain(plain, header, rules, now_ms)
    if isinstance(walked, Rejected):
        return walked
    made = bytearray(memoryview(batch)[:HEADER_SIZE])
    made += compress(rules.codec, plain, rules.level)
    if len(made) > rules.max_bytes:
        return Rejected(
            ErrorCode.message_too_large,
            f"batch of {len(made)} bytes, as compression.type has it, is larger than the {rules.max_bytes} that "
            "max.message.bytes allows",
        )
    _LENGTH.pack_into(made, _LENGTH_AT, len(made) - LOG_OVERHEAD)
    _ATTRIBUTES.pack_into(made, _ATTRIBUTES_AT, header.attributes & ~CODEC_MASK | rules.codec)
    _CRC.pack_into(made, _CRC_AT, computed_crc(made))
    return bytes(made)
