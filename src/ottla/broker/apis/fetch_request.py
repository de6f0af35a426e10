"""How a request of Fetch looks, in all versions; read by hand.

Consumers and followers send one for every few batches, so that reading it through a schema would cost more than all
else that is done for it. The bytes are those of strangers: every length and count is checked before it is believed.
What is malformed and what is merely odd is decided as wire/structure.py does it.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.broker.apis.fetch_format import FLEXIBLE, TOPIC_IDS
from ottla.broker.fetch_sessions import FINAL_EPOCH, Wanted
from ottla.broker.follower_watch import Key
from ottla.env.slices import numbers
from ottla.model.names import NO_EPOCH, NO_OFFSET
from ottla.wire.codec import MalformedRequest
from ottla.wire.varint import read_length, read_signed, skip_tags

START_OFFSETS: Final = 5
SESSIONS: Final = 7
EPOCHS: Final = 9
RACKS: Final = 11
REPLICA_STATE: Final = 15
_DIRECTORIES: Final = 17
_HIGH_WATERMARKS: Final = 18
_CONSUMER: Final = (-1, -1)

_HEAD_OF_4: Final = Struct(">iiiib")  # replica, max wait, min bytes, max bytes, isolation
_HEAD_OF_7: Final = Struct(">iiiibii")  # and a session's id and epoch
_HEAD_OF_15: Final = Struct(">iiibii")  # and no replica
_ROW_OF_4: Final = Struct(">iqi")  # partition, offset, max bytes
_ROW_OF_5: Final = Struct(">iqqi")  # and the start of a follower's log
_ROW_OF_9: Final = Struct(">iiqqi")  # and the leader's epoch
_ROW_OF_12: Final = Struct(">iiqiqi")  # and the epoch that was fetched last
_REPLICA: Final = Struct(">iq")
_I32: Final = Struct(">i")
_I16: Final = Struct(">h")
_LONGEST_TEXT: Final = 0x7FFF
_UUID_BYTES: Final = 16
_I64_BYTES: Final = 8


class FetchRequest(NamedTuple):
    replica_id: int  # who asks, and in which of its lives; -1 for consumers
    broker_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    wanted: dict[Key, Wanted]
    forgotten: list[Key]
    rack_id: str


def read(version: int, body: memoryview) -> FetchRequest:
    try:
        return _read(version, body)
    except (IndexError, StructError, ValueError) as error:
        raise MalformedRequest(f"Fetch version {version} cannot be read: {error}") from error


def _read(version: int, data: memoryview) -> FetchRequest:
    replica_id, broker_epoch = _CONSUMER
    session_id, session_epoch = 0, FINAL_EPOCH
    if version >= REPLICA_STATE:
        max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = _HEAD_OF_15.unpack_from(data)
        at = _HEAD_OF_15.size
    elif version >= SESSIONS:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch = _HEAD_OF_7.unpack_from(
            data
        )
        at = _HEAD_OF_7.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation = _HEAD_OF_4.unpack_from(data)
        at = _HEAD_OF_4.size
    wanted: dict[Key, Wanted] = {}
    at = _read_wanted(version, data, at, wanted)
    forgotten: list[Key] = []
    if version >= SESSIONS:
        at = _read_forgotten(version, data, at, forgotten)
    rack_id = ""
    if version >= RACKS:
        rack_id, at = _text(data, at, version >= FLEXIBLE)
    if version >= FLEXIBLE and data[at]:
        count, at = read_signed(data, at)
        for _ in range(count):
            tag, end, at = _tag(data, at)
            if tag == 0:  # the id of the cluster, or null: nobody looks at it
                at = _skip_text(data, at)
            elif tag == 1 and version >= REPLICA_STATE:
                replica_id, broker_epoch = _REPLICA.unpack_from(data, at)
                at = skip_tags(data, at + _REPLICA.size)
            else:
                at = _skip(data, tag, at, end, later=(1,))
    return FetchRequest(
        replica_id, broker_epoch, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, wanted,
        forgotten, rack_id,
    )  # fmt: skip


def _read_wanted(version: int, data: memoryview, at: int, wanted: dict[Key, Wanted]) -> int:
    flexible = version >= FLEXIBLE
    topics, at = _count(data, at, flexible)
    for _ in numbers(topics):
        name, at = _topic(version, data, at)
        rows, at = _count(data, at, flexible)
        for _ in numbers(rows):
            if flexible:
                number, epoch, offset, last_epoch, start_offset, max_bytes = _ROW_OF_12.unpack_from(data, at)
                at += _ROW_OF_12.size
                # fmt: off
                wanted[name, number] = Wanted(
                    offset, max_bytes, epoch if epoch > NO_EPOCH else NO_EPOCH,
                    last_epoch if last_epoch > NO_EPOCH else NO_EPOCH, start_offset,
                )
                # fmt: on
                at = at + 1 if not data[at] else _skip_tags_of_row(version, data, at)
            elif version >= EPOCHS:
                number, epoch, offset, start_offset, max_bytes = _ROW_OF_9.unpack_from(data, at)
                at += _ROW_OF_9.size
                wanted[name, number] = Wanted(offset, max_bytes, max(epoch, NO_EPOCH), NO_EPOCH, start_offset)
            elif version >= START_OFFSETS:
                number, offset, start_offset, max_bytes = _ROW_OF_5.unpack_from(data, at)
                at += _ROW_OF_5.size
                wanted[name, number] = Wanted(offset, max_bytes, NO_EPOCH, NO_EPOCH, start_offset)
            else:
                number, offset, max_bytes = _ROW_OF_4.unpack_from(data, at)
                at += _ROW_OF_4.size
                wanted[name, number] = Wanted(offset, max_bytes, NO_EPOCH, NO_EPOCH, NO_OFFSET)
        if flexible:
            at = skip_tags(data, at)
    return at


def _read_forgotten(version: int, data: memoryview, at: int, forgotten: list[Key]) -> int:
    flexible = version >= FLEXIBLE
    topics, at = _count(data, at, flexible)
    for _ in numbers(topics):
        name, at = _topic(version, data, at)
        partitions, at = _count(data, at, flexible)
        for _ in numbers(partitions):
            forgotten.append((name, _I32.unpack_from(data, at)[0]))
            at += _I32.size
        if flexible:
            at = skip_tags(data, at)
    return at


def _count(data: memoryview, at: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, start = read_length(data, at)
    else:
        count, start = _I32.unpack_from(data, at)[0], at + _I32.size
    if not 0 <= count <= len(data) - start:
        raise ValueError(f"an array at byte {at} says {count} items, {len(data) - start} bytes follow")
    return count, start


def _topic(version: int, data: memoryview, at: int) -> tuple[str | bytes, int]:
    if version >= TOPIC_IDS:
        end = at + _UUID_BYTES
        if end > len(data):
            raise ValueError(f"a topic's id at byte {at} ends outside the message")
        return bytes(data[at:end]), end
    return _text(data, at, version >= FLEXIBLE)


def _text(data: memoryview, at: int, flexible: bool) -> tuple[str, int]:
    if flexible:
        length, start = read_length(data, at)
    else:
        length, start = _I16.unpack_from(data, at)[0], at + _I16.size
    end = start + length
    if not 0 <= length <= _LONGEST_TEXT or end > len(data):
        raise ValueError(f"a text at byte {at} says {length} bytes")
    return str(data[start:end], "utf-8", "replace"), end


# -- tagged fields


def _tag(data: memoryview, at: int) -> tuple[int, int, int]:
    """A field's tag, where it says that it ends, and where it begins."""
    tag, at = read_signed(data, at)
    size, at = read_signed(data, at)
    return tag, at + size, at


def _skip(data: memoryview, tag: int, at: int, end: int, later: tuple[int, ...] = ()) -> int:
    if tag in later:
        raise ValueError(f"tag {tag} at byte {at} is of a later version")
    if not at <= end <= len(data):
        raise ValueError(f"a tagged field at byte {at} ends at {end}, the message at {len(data)}")
    return end


def _skip_tags_of_row(version: int, data: memoryview, at: int) -> int:
    """The folder that a follower keeps it in, and how far it knows it to be committed: nobody looks at them here."""
    count, at = read_signed(data, at)
    for _ in range(count):
        tag, end, at = _tag(data, at)
        if tag == 0 and version >= _DIRECTORIES:
            at = _skip(data, tag, at, at + _UUID_BYTES)  # whatever size it says
        elif tag == 1 and version >= _HIGH_WATERMARKS:
            at = _skip(data, tag, at, at + _I64_BYTES)
        else:
            at = _skip(data, tag, at, end, later=(0, 1))
    return at


def _skip_text(data: memoryview, at: int) -> int:
    length, start = read_length(data, at)
    if length > _LONGEST_TEXT:
        raise ValueError(f"a text at byte {at} says {length} bytes")
    return _skip(data, 0, start, start + max(length, 0))
