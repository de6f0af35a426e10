"""Control records of the metadata log and its snapshots: batches that change no metadata."""

import io
from enum import IntEnum
from struct import Struct
from typing import Final

from kio.schema.leader_change_message.v0 import LeaderChangeMessage
from kio.schema.leader_change_message.v0.data import Voter
from kio.schema.snapshot_footer_record.v0 import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0 import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.serial import entity_writer
from kio.static.primitive import i16, i32, i64
from kio.static.protocol import Entity

from ottla.record.builder import build_batch
from ottla.record.records import CorruptBatch, Record

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def leader_change_batch(leader_id: int, voters: tuple[int, ...], granting: tuple[int, ...], now_ms: int) -> bytes:
    message = LeaderChangeMessage(
        version=i16(0),
        leader_id=BrokerId(leader_id),
        voters=tuple(Voter(voter_id=i32(voter)) for voter in voters),
        granting_voters=tuple(Voter(voter_id=i32(voter)) for voter in granting),
    )
    return build_batch([_control(ControlType.LEADER_CHANGE, message, now_ms)], control=True)


def snapshot_header_batch(last_contained_log_timestamp: int, now_ms: int) -> bytes:
    message = SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_contained_log_timestamp))
    return build_batch([_control(ControlType.SNAPSHOT_HEADER, message, now_ms)], control=True)


def snapshot_footer_batch(now_ms: int) -> bytes:
    message = SnapshotFooterRecord(version=i16(0))
    return build_batch([_control(ControlType.SNAPSHOT_FOOTER, message, now_ms)], control=True)


def control_type(record: Record) -> int:
    """Which kind of control record this is; may be one that ControlType does not know."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch(f"the control record at offset {record.offset} has no version and type in its key")
    return int(_KEY.unpack_from(record.key)[1])


def _control(kind: ControlType, message: Entity, now_ms: int) -> Record:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return Record(_KEY.pack(_KEY_VERSION, kind), buffer.getvalue(), now_ms)
