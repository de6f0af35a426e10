"""Answers to OffsetFetch, written by hand: who looks at thousands of groups gets them by the hundred thousand rows."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.group.offsets import Fetched
from ottla.env.slices import Rows
from ottla.model.errors import ErrorCode
from ottla.wire.pieces import count, text

ERROR_OF_GROUP: Final = 2
THROTTLED: Final = 3
LEADER_EPOCHS: Final = 5
FLEXIBLE: Final = 6
MANY_GROUPS: Final = 8
BY_ID: Final = 10

_SIZE: Final = Struct(">i")
_SHORT: Final = Struct(">h")
_PLACE: Final = Struct(">iq")  # partition, offset
_PLACE_EPOCH: Final = Struct(">iqi")
_FLEXIBLE_ROW: Final = Struct(">iqiBhB")  # with empty metadata, and no tagged fields
_CODE_AND_NO_TAGS: Final = Struct(">hB")
_NO_TAGS: Final = b"\x00"
_NO_THROTTLE: Final = bytes(4)
_NO_ID: Final = bytes(16)


class Topic(NamedTuple):
    name: str
    id: UUID | None
    rows: Sequence[Fetched]


class Group(NamedTuple):
    id: str
    code: ErrorCode
    topics: Sequence[Topic]


def write_answer(version: int, correlation_id: int, groups: Sequence[Group]) -> bytes:
    """A whole frame. Versions before 8 are about one group."""
    parts = [_SIZE.pack(correlation_id)]
    if version >= FLEXIBLE:
        parts.append(_NO_TAGS)
    if version >= THROTTLED:
        parts.append(_NO_THROTTLE)
    if version >= MANY_GROUPS:
        parts.append(count(len(groups), flexible=True))
        for group in groups:
            parts.append(text(group.id, flexible=True))
            _write_group(version, group, parts)
            parts.append(_NO_TAGS)
    else:
        _write_group(version, groups[0], parts)
    if version >= FLEXIBLE:
        parts.append(_NO_TAGS)
    body = b"".join(parts)
    return _SIZE.pack(len(body)) + body


def errors_of(version: int, groups: Sequence[Group]) -> list[ErrorCode]:
    codes = [group.code for group in groups] if version >= ERROR_OF_GROUP else []
    codes += [row.code for group in groups for topic in group.topics for row in Rows(topic.rows)]
    return [code for code in codes if code is not ErrorCode.none]


def _write_group(version: int, group: Group, parts: list[bytes]) -> None:
    flexible = version >= FLEXIBLE
    parts.append(count(len(group.topics), flexible))
    for topic in group.topics:
        if version >= BY_ID:
            parts.append(topic.id.bytes if topic.id is not None else _NO_ID)
        else:
            parts.append(text(topic.name, flexible))
        if flexible:
            parts.append(count(len(topic.rows), flexible=True))
            parts += [_flexible_row(*row) for row in Rows(topic.rows)]
            parts.append(_NO_TAGS)
        else:
            parts.append(count(len(topic.rows), flexible=False))
            parts += [_plain_row(version, row) for row in Rows(topic.rows)]
    if version >= ERROR_OF_GROUP:
        parts.append(_SHORT.pack(group.code.value))


def _flexible_row(partition: int, offset: int, epoch: int, metadata: str, code: ErrorCode) -> bytes:
    if not metadata:
        return _FLEXIBLE_ROW.pack(partition, offset, epoch, 1, code.value, 0)
    return (
        _PLACE_EPOCH.pack(partition, offset, epoch)
        + text(metadata, flexible=True)
        + _CODE_AND_NO_TAGS.pack(code.value, 0)
    )


def _plain_row(version: int, row: Fetched) -> bytes:
    place = (
        _PLACE_EPOCH.pack(row.partition, row.offset, row.leader_epoch)
        if version >= LEADER_EPOCHS
        else _PLACE.pack(row.partition, row.offset)
    )
    return place + text(row.metadata, flexible=False) + _SHORT.pack(row.code.value)
