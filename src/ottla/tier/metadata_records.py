"""Records of `__remote_log_metadata`, to and from bytes, and the partition of that topic which they belong to.

They have no key. A value is the version of the frame (1), the kind and its version, each a uvarint, then the message,
which is flexible:

    0  RemoteLogSegmentMetadataRecord        a segment, with the state that it begins in
    1  RemoteLogSegmentMetadataUpdateRecord  another state of it
    2  RemotePartitionDeleteMetadataRecord   how far the deletion of a whole partition is
"""

from __future__ import annotations

from struct import Struct
from typing import Final
from uuid import UUID

from ottla.log.epochs import EpochStart
from ottla.model.errors import OttlaError
from ottla.tier.remote_segment import (
    DeleteState,
    PartitionDelete,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
)
from ottla.wire.varint import Malformed, read_length, read_uvarint, skip_tags, uvarint

Event = RemoteSegment | SegmentUpdate | PartitionDelete

_FRAME: Final = 1
_SEGMENT, _UPDATE, _DELETE = 0, 1, 2
_INT: Final = Struct(">i")
_OFFSETS: Final = Struct(">qqiqq")  # start, end, broker, largest timestamp, time of the event
_EVENT: Final = Struct(">iq")  # broker, time of the event
_EPOCH: Final = Struct(">iq")
_NO_TAGS: Final = b"\x00"
_TXN_INDEX_EMPTY: Final = 0  # its tag
_MASK: Final = 0xFFFFFFFF


class UnknownRecord(OttlaError):
    """A record of the metadata topic that cannot be read, or is of a kind that is newer than this node."""


# -- writing


def write_event(event: Event) -> bytes:
    match event:
        case RemoteSegment():
            return b"".join(
                (
                    _head(_SEGMENT),
                    _segment_id(event.of, event.id),
                    _OFFSETS.pack(
                        event.start_offset, event.end_offset, event.broker_id, event.max_timestamp, event.event_ms
                    ),
                    uvarint(len(event.epochs) + 1),
                    *(_EPOCH.pack(*epoch) + _NO_TAGS for epoch in event.epochs),
                    _INT.pack(event.size),
                    _bytes(event.custom),
                    bytes((event.state,)),
                    bytes((1, _TXN_INDEX_EMPTY, 1, 1)) if event.has_no_aborted else _NO_TAGS,
                )
            )
        case SegmentUpdate():
            return b"".join(
                (
                    _head(_UPDATE),
                    _segment_id(event.of, event.id),
                    _EVENT.pack(event.broker_id, event.event_ms),
                    _bytes(event.custom),
                    bytes((event.state,)),
                    _NO_TAGS,
                )
            )
        case PartitionDelete():
            told = _EVENT.pack(event.broker_id, event.event_ms) + bytes((event.state,))
            return _head(_DELETE) + _partition(event.of) + told + _NO_TAGS


def _head(kind: int) -> bytes:
    return uvarint(_FRAME) + uvarint(kind) + uvarint(0)


def _partition(of: RemotePartition) -> bytes:
    name = of.topic.encode()
    return uvarint(len(name) + 1) + name + of.topic_id.bytes + _INT.pack(of.partition) + _NO_TAGS


def _segment_id(of: RemotePartition, segment_id: UUID) -> bytes:
    return _partition(of) + segment_id.bytes + _NO_TAGS


def _bytes(data: bytes | None) -> bytes:
    return uvarint(0) if data is None else uvarint(len(data) + 1) + data


# -- reading


def read_event(value: bytes) -> Event:
    try:
        frame, position = read_uvarint(value, 0)
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
        if frame != _FRAME or kind not in (_SEGMENT, _UPDATE, _DELETE) or version != 0:
            raise UnknownRecord(f"a record of kind {kind}, version {version}, in frame {frame} is not known here")
        reader = _Reader(value, position)
        return (reader.segment, reader.update, reader.delete)[kind]()
    except (Malformed, ValueError, IndexError) as error:
        raise UnknownRecord(f"a record of {len(value)} bytes cannot be read: {error}") from error


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._at = position

    def segment(self) -> RemoteSegment:
        of, segment_id = self._segment_id()
        start, end, broker_id, max_timestamp, event_ms = _OFFSETS.unpack(self._take(_OFFSETS.size))
        epochs = tuple(self._epoch() for _ in range(self._length()))
        (size,) = _INT.unpack(self._take(_INT.size))
        custom = self._bytes()
        state = SegmentState(self._take(1)[0])
        tags = self._tagged()
        return RemoteSegment(
            of, segment_id, start, end, broker_id, max_timestamp, event_ms, epochs, size, state, custom,
            tags.get(_TXN_INDEX_EMPTY, b"\x00") != b"\x00",
        )  # fmt: skip

    def update(self) -> SegmentUpdate:
        of, segment_id = self._segment_id()
        broker_id, event_ms = _EVENT.unpack(self._take(_EVENT.size))
        custom = self._bytes()
        return SegmentUpdate(of, segment_id, broker_id, event_ms, SegmentState(self._take(1)[0]), custom)

    def delete(self) -> PartitionDelete:
        of = self._partition()
        broker_id, event_ms = _EVENT.unpack(self._take(_EVENT.size))
        return PartitionDelete(of, broker_id, event_ms, DeleteState(self._take(1)[0]))

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise Malformed(f"it ends at byte {len(self._data)}")
        self._at += size
        return taken

    def _length(self) -> int:
        length, self._at = read_length(self._data, self._at)
        return length

    def _bytes(self) -> bytes | None:
        length = self._length()
        return None if length < 0 else self._take(length)

    def _tags(self) -> None:
        self._at = skip_tags(self._data, self._at)

    def _tagged(self) -> dict[int, bytes]:
        found = {}
        count, self._at = read_uvarint(self._data, self._at)
        for _ in range(count):
            tag, self._at = read_uvarint(self._data, self._at)
            size, self._at = read_uvarint(self._data, self._at)
            found[tag] = self._take(size)
        return found

    def _epoch(self) -> EpochStart:
        epoch = EpochStart(*_EPOCH.unpack(self._take(_EPOCH.size)))
        self._tags()
        return epoch

    def _partition(self) -> RemotePartition:
        name = (self._bytes() or b"").decode()
        topic_id = UUID(bytes=self._take(16))
        (partition,) = _INT.unpack(self._take(_INT.size))
        self._tags()
        return RemotePartition(name, topic_id, partition)

    def _segment_id(self) -> tuple[RemotePartition, UUID]:
        of = self._partition()
        segment_id = UUID(bytes=self._take(16))
        self._tags()
        return of, segment_id


# -- where they belong


def metadata_partition(topic_id: UUID, partition: int, partitions: int) -> int:
    """As Kafka's RemoteLogMetadataTopicPartitioner: murmur2 of Java's Objects.hash over both halves of the id."""
    most, least = topic_id.int >> 64, topic_id.int & 0xFFFFFFFFFFFFFFFF
    value = 1
    for number in (_long_hash(least), _long_hash(most), partition):
        value = (31 * value + number) & _MASK
    return (_murmur2(value.to_bytes(4, "big")) & 0x7FFFFFFF) % partitions


def _long_hash(value: int) -> int:
    return (value ^ (value >> 32)) & _MASK


def _murmur2(four_bytes: bytes) -> int:
    """Of exactly four bytes, which need no tail."""
    multiplier = 0x5BD1E995
    k = int.from_bytes(four_bytes, "little") * multiplier & _MASK
    k = (k ^ (k >> 24)) * multiplier & _MASK
    h = ((0x9747B28C ^ 4) * multiplier & _MASK) ^ k
    h = (h ^ (h >> 13)) * multiplier & _MASK
    return h ^ (h >> 15)
