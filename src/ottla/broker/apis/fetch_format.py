"""The bytes of an answer to Fetch: parts of a frame, and ranges of files between them."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.current_leaders import CurrentLeader
from ottla.broker.follower_watch import Key
from ottla.env.slices import Rows
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Fetched
from ottla.wire.pieces import count, text
from ottla.wire.reply import FileRange, Message, Part

_STORAGE_ERRORS: Final = 6  # clients before it need not know the error, and would give up
FLEXIBLE: Final = 12
TOPIC_IDS: Final = 13
_SIZE_CORRELATION: Final = Struct(">ii")
_I32: Final = Struct(">i")
_HEAD: Final = Struct(">ihi")  # throttle time, error, session id
_ROW_OF_4: Final = Struct(">ihqq")
_ROW_OF_12: Final = Struct(">ihqqqBi")  # with null for aborted transactions
_TWO_I64: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iq")


class Row(NamedTuple):
    key: Key
    fetched: Fetched


def write_answer(
    version: int,
    correlation_id: int,
    code: ErrorCode,
    session_id: int,
    rows: Sequence[Row],
    leaders: dict[Key, CurrentLeader] | None = None,
    endpoints: bytes = b"\x00",
) -> Message:
    """The whole frame: bytes, and ranges of files between them.

    `leaders` are those of partitions that were asked of the wrong node, `endpoints` the tagged fields that say where
    they are.
    """
    flexible = version >= FLEXIBLE
    parts: list[Part] = []
    pending: list[bytes] = [b"\x00"] if flexible else []
    pending.append(_HEAD.pack(0, code, session_id) if version >= 7 else b"\x00\x00\x00\x00")
    size = 4  # the correlation id
    topics: dict[str | bytes, list[Row]] = {}
    for row in rows:
        topics.setdefault(row.key[0], []).append(row)
    pending.append(count(len(topics), flexible))
    sliced = isinstance(rows, Rows)
    for name, topic_rows in Rows(topics.items()) if sliced else topics.items():
        pending.append(_topic(name, version))
        pending.append(count(len(topic_rows), flexible))
        for row in Rows(topic_rows) if sliced else topic_rows:
            fetched = row.fetched
            pending.append(_row_head(version, row))
            data = fetched.data
            if data is not None:
                pending.append(count(data.size, flexible))
            if data is None:
                pending.append(b"\x01" if flexible else b"\x00\x00\x00\x00")
            elif data.data is not None:
                pending.append(data.data)
            else:
                parts.append(b"".join(pending))
                pending.clear()
                parts.append(FileRange(data.file, data.position, data.size))
                size += data.size
            if flexible:
                end = fetched.diverging
                if leaders and row.key in leaders:
                    pending.append(b"\x01\x01" + leaders[row.key].encoded())
                else:
                    pending.append(b"\x00" if end is None else b"\x01\x00\x0d" + _EPOCH_END.pack(*end) + b"\x00")
        if flexible:
            pending.append(b"\x00")
    if flexible:
        pending.append(endpoints)
    last = b"".join(pending)
    size += len(last) + sum([len(part) for part in parts if isinstance(part, bytes)])
    head = _SIZE_CORRELATION.pack(size, correlation_id)
    if not parts:
        return head + last
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = head + first
    if last:
        parts.append(last)
    return parts


def _topic(name: str | bytes, version: int) -> bytes:
    if isinstance(name, bytes):
        return name
    return text(name, version >= FLEXIBLE)


def _row_head(version: int, row: Row) -> bytes:
    """All of a partition's answer that comes before its records."""
    code, high_watermark, last_stable_offset, start_offset, _, aborted, _, preferred = row.fetched
    number = row.key[1]
    if version < _STORAGE_ERRORS and code is ErrorCode.kafka_storage_error:
        code = ErrorCode.not_leader_or_follower
    if aborted is None and version >= FLEXIBLE:
        return _ROW_OF_12.pack(number, code, high_watermark, last_stable_offset, start_offset, 0, preferred)
    fixed = _ROW_OF_4.pack(number, code, high_watermark, last_stable_offset)
    if version >= 5:
        fixed += start_offset.to_bytes(8, "big", signed=True)
    flexible = version >= FLEXIBLE
    if aborted is None:
        fixed += b"\xff\xff\xff\xff"
    else:
        fixed += count(len(aborted), flexible)
        tags = b"\x00" if flexible else b""
        fixed += b"".join([_TWO_I64.pack(txn.producer_id, txn.first_offset) + tags for txn in aborted])
    return fixed + _I32.pack(preferred) if version >= 11 else fixed
