"""What a group's coordinator remembers of it, read from the topic in which it keeps that."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, NamedTuple

from ottla.cli.admin.moving import asked_again
from ottla.cli.admin.offsets import EARLIEST, LATEST, offsets
from ottla.cli.admin.session import Session, raise_for
from ottla.cli.admin.topics import TopicInfo, topics
from ottla.coordinator.group.hashing import group_hash
from ottla.coordinator.group.history.coding import Unreadable, decode, read_key
from ottla.coordinator.group.history.entries import KEPT_ENTRIES, Entry, Roll
from ottla.model.errors import OttlaError
from ottla.model.names import HISTORY_TOPIC
from ottla.record.reader import iterate_batches, read_records

_FETCH: Final = (1, 12)  # the last version that names topics
_BYTES: Final = 4 * 1024 * 1024


class GroupHistory(NamedTuple):
    entries: list[Entry]
    """The oldest first."""
    roll: Roll | None


@asked_again
async def group_history(session: Session, group_id: str) -> GroupHistory | None:
    """None if this cluster remembers nothing of any group."""
    found = [topic for topic in await topics(session) if topic.name == HISTORY_TOPIC]
    if not found:
        return None
    values: dict[int | str, bytes | None] = {}
    for key, value in await _records(session, found[0], group_hash(group_id) % len(found[0].partitions)):
        try:
            of_group, slot = read_key(key)
        except Unreadable:
            continue
        if of_group == group_id:
            values[slot] = value
    return _history(values)


def _history(values: dict[int | str, bytes | None]) -> GroupHistory:
    entries: list[Entry] = []
    roll = None
    for value in values.values():
        if value is None:
            continue
        try:
            told = decode(value)
        except Unreadable:
            continue
        if isinstance(told, Roll):
            roll = told
        else:
            entries.append(told)
    entries.sort(key=lambda entry: entry.number)
    newest = entries[-1].number if entries else 0
    return GroupHistory([entry for entry in entries if entry.number > newest - KEPT_ENTRIES], roll)


async def _records(session: Session, topic: TopicInfo, partition: int) -> list[tuple[bytes, bytes | None]]:
    begin = (await offsets(session, topic, EARLIEST, [partition]))[partition]
    end = (await offsets(session, topic, LATEST, [partition]))[partition]
    leader = next(each.leader for each in topic.partitions if each.number == partition)
    found: list[tuple[bytes, bytes | None]] = []
    while begin < end:
        data = await _fetch(session, topic.name, partition, leader, begin)
        reached = begin
        for header, batch in iterate_batches(data):
            reached = header.next_offset
            if not header.is_control:
                found += [(record.key, record.value) for record in read_records(batch) if record.key is not None]
        if reached == begin:
            raise OttlaError(f"{topic.name}-{partition} gives nothing at offset {begin}, though it ends at {end}")
        begin = reached
    return found


async def _fetch(session: Session, topic: str, partition: int, leader: int, offset: int) -> bytes:
    from ottla.wire.build import build, request_type

    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": _BYTES}
    request = build(
        request_type(*_FETCH),
        {
            "max_wait": timedelta(0),
            "min_bytes": 1,
            "max_bytes": _BYTES,
            "topics": [{"topic": topic, "partitions": [asked]}],
            "forgotten_topics_data": (),
        },
    )
    answer: Any = await session.call(request, broker=leader)
    (part,) = answer.responses[0].partitions
    raise_for(part.error_code, None, f"{topic}-{partition} cannot be read")
    return bytes(part.records or b"")
