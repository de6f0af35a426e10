"""Records as people can read them: text where it is text, control and metadata records by their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from struct import Struct
from typing import Any, Final
from uuid import UUID

from ottla.model.ids import uuid_text
from ottla.record.batch import TIMESTAMP_TYPE_BIT, BatchHeader, Codec
from ottla.record.records import CorruptBatch, Record

_END_MARKER: Final = Struct(">hi")


def batch_item(header: BatchHeader, position: int, *, crc_ok: bool) -> dict[str, Any]:
    codec = header.codec
    item: dict[str, Any] = {
        "batch": header.base_offset,
        "last_offset": header.last_offset,
        "position": position,
        "size": header.size,
        "records": header.record_count,
        "compression": Codec(codec).name.lower() if codec <= Codec.ZSTD else f"codec {codec}",
        "leader_epoch": header.leader_epoch,
        "timestamp_type": "LogAppendTime" if header.attributes & TIMESTAMP_TYPE_BIT else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "crc": "ok" if crc_ok else "wrong",
    }
    if header.is_control:
        item["control"] = True
    if header.producer_id >= 0:
        item |= {
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "first_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "transactional": header.is_transactional,
        }
    return item


def record_item(record: Record, *, control: bool, metadata: bool) -> dict[str, Any]:
    from ottla.cli.record_format import put_text

    item: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if control:
        return item | _control(record)
    if metadata:
        return item | _metadata(record)
    put_text(item, "key", record.key)
    put_text(item, "value", record.value)
    if record.headers:
        flat: list[Any] = []
        for name, value in record.headers:
            flat += [name, None if value is None else value.decode(errors="replace")]
        item["headers"] = flat
    return item


def _metadata(record: Record) -> dict[str, Any]:
    from ottla.metadata.record_codec import RecordError, decode_record

    try:
        decoded = decode_record(record.value)
    except RecordError as error:
        return {"unreadable": str(error)}
    return {"type": type(decoded.record).__name__, "version": decoded.version, "fields": plain(decoded.record)}


def _control(record: Record) -> dict[str, Any]:
    """Ends of transactions, and the quorum's own records."""
    from ottla.raft.control_records import ControlType, control_type

    try:
        number = control_type(record)
    except CorruptBatch as error:
        return {"unreadable": str(error)}
    try:
        kind = ControlType(number)
    except ValueError:
        return {"control": f"type {number}"}
    item: dict[str, Any] = {"control": kind.name.lower()}
    value = record.value or b""
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        if len(value) >= _END_MARKER.size:
            item["coordinator_epoch"] = _END_MARKER.unpack_from(value)[1]
        return item
    fields = _message(kind.name, value)
    return item if fields is None else item | {"fields": fields}


_MESSAGES: Final = {
    "LEADER_CHANGE": ("leader_change_message", "LeaderChangeMessage"),
    "SNAPSHOT_HEADER": ("snapshot_header_record", "SnapshotHeaderRecord"),
    "SNAPSHOT_FOOTER": ("snapshot_footer_record", "SnapshotFooterRecord"),
    "KRAFT_VERSION": ("k_raft_version_record", "KRaftVersionRecord"),
    "KRAFT_VOTERS": ("voters_record", "VotersRecord"),
}


def _message(kind: str, value: bytes) -> Any:
    """The first two bytes are the version, and also its first field."""
    from importlib import import_module

    from kio.serial import entity_reader

    folder, name = _MESSAGES[kind]
    version = int.from_bytes(value[:2], "big")
    try:
        message: Any = getattr(import_module(f"kio.schema.{folder}.v{version}.data"), name)
        return plain(entity_reader(message)(value, 0)[0])
    except Exception:  # a newer version, or damage: kio raises whatever it meets
        return None


def plain(value: Any) -> Any:
    """What JSON and YAML can say."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, UUID):
        return uuid_text(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    return value if isinstance(value, str | float) else str(value)
