"""Metadata records to and from the values of `__cluster_metadata`.

    uvarint 1 (version of this frame), uvarint key of the record type, uvarint version of it, the message

A record is decoded into the newest version of its type, whichever version it was written in. Which version to write
follows from metadata.version: a log may belong to a cluster that has not been upgraded yet.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any, Final, NamedTuple

from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError

from ottla.metadata import fast_records
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.index import MODULES
from ottla.wire.varint import Malformed, read_uvarint, uvarint

_FRAME_VERSION: Final = 1
_OLDER: Final = "ottla.metadata.records.older."

PARTITION: Final = 3
PARTITION_CHANGE: Final = 5
REGISTER_BROKER: Final = 0

# (metadata.version, record version) by record type; the first row that the cluster has reached counts.
# 30 is 4.3-IV0 (cordoned log dirs), 23 is 4.0-IV1 (eligible leader replicas), 17 is 3.7-IV2 (log directories).
_FIXED_VERSIONS: Final[dict[int, tuple[tuple[int, int], ...]]] = {
    REGISTER_BROKER: ((30, 4), (17, 3), (8, 2), (7, 1)),
    PARTITION: ((23, 2), (17, 1), (7, 0)),
    PARTITION_CHANGE: ((23, 2), (17, 1), (7, 0)),
}


_BY_HAND: Final[dict[tuple[int, int], Callable[[MetadataRecord], bytes | None]]] = {
    (PARTITION, 2): fast_records.partition_record,
    (PARTITION_CHANGE, 2): fast_records.partition_change_record,
}


class RecordError(ValueError):
    """A value that is not the metadata record it should be."""


class DecodedRecord(NamedTuple):
    record: MetadataRecord
    version: int


class _WireFormat(NamedTuple):
    """One version of one record type."""

    type: type[MetadataRecord]
    fields: tuple[str, ...]
    read: Callable[[bytes, int], tuple[MetadataRecord, int]]
    write: Callable[[BytesIO, MetadataRecord], None]


def encode_record(record: MetadataRecord, version: int) -> bytes:
    """The value that holds the record in this version. RecordError if the version cannot say what the record says."""
    key = record.__api_key__
    if (by_hand := _BY_HAND.get((key, version))) is not None and (body := by_hand(record)) is not None:
        return bytes((_FRAME_VERSION, key, version)) + body
    wire = _wire_format(key, version)
    buffer = BytesIO()
    for number in (_FRAME_VERSION, key, version):
        buffer.write(uvarint(number))
    wire.write(buffer, record if type(record) is wire.type else _older(record, wire))
    return buffer.getvalue()


def decode_record(value: bytes | None) -> DecodedRecord:
    if not value:
        raise RecordError("a metadata record has no value")
    try:
        frame_version, position = read_uvarint(value, 0)
        if frame_version != _FRAME_VERSION:
            raise RecordError(f"a metadata record has frame version {frame_version}, only 1 is known")
        key, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
        wire = _wire_format(key, version)
        record, size = wire.read(value, position)
    except (SerialError, Malformed, KeyError, IndexError) as error:
        raise RecordError(f"a metadata record cannot be read: {error!r}") from error
    if position + size != len(value):
        raise RecordError(f"{len(value) - position - size} bytes follow a {type(record).__name__}")
    return DecodedRecord(_newest(record, wire), version)


def version_to_write(record: MetadataRecord, metadata_version: int) -> int:
    """As Kafka does: three types follow metadata.version, all others are written in the oldest version that will do."""
    key = record.__api_key__
    for reached, version in _FIXED_VERSIONS.get(key, ()):
        if metadata_version >= reached:
            return version
    for version in range(record.__version__):
        if not _lost(record, _wire_format(key, version)):
            return version
    return record.__version__


@cache
def _newest_type(key: int) -> type[MetadataRecord]:
    if key not in MODULES:
        raise RecordError(f"metadata record type {key} is not known: written by a newer Kafka?")
    newest: type[MetadataRecord] = import_module(MODULES[key]).RECORD
    return newest


@cache
def _wire_format(key: int, version: int) -> _WireFormat:
    wire_type = newest = _newest_type(key)
    if version != newest.__version__:
        if not 0 <= version < newest.__version__:
            raise RecordError(f"{newest.__name__} version {version} is not known: written by a newer Kafka?")
        older: dict[int, type[MetadataRecord]] = import_module(_OLDER + MODULES[key].rsplit(".", 1)[1]).VERSIONS
        wire_type = older[version]
    reader: Any = entity_reader(wire_type)
    writer: Any = entity_writer(wire_type)
    return _WireFormat(wire_type, tuple(field.name for field in fields(wire_type)), reader, writer)


def _newest(record: MetadataRecord, wire: _WireFormat) -> MetadataRecord:
    newest = _newest_type(record.__api_key__)
    if wire.type is newest:
        return record
    return newest(**{name: getattr(record, name) for name in wire.fields})


def _older(record: MetadataRecord, wire: _WireFormat) -> MetadataRecord:
    if lost := _lost(record, wire):
        raise RecordError(f"{wire.type.__name__} has no place for {', '.join(lost)}")
    return wire.type(**{name: getattr(record, name) for name in wire.fields})


def _lost(record: MetadataRecord, wire: _WireFormat) -> list[str]:
    """Fields that the older version lacks and that are not at their default."""
    missing = [field for field in fields(record) if field.name not in wire.fields]
    return [field.name for field in missing if field.default is MISSING or getattr(record, field.name) != field.default]
