"""What a record makes of a group."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.coordinator.group.consumer import records as stored
from ottla.coordinator.group.consumer.codec import read_names
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.machine import StoredRecord

_TYPE: Final = Struct(">h")


def replay_onto(group: ConsumerGroup, record: StoredRecord) -> None:
    """Those that begin a group; others do not concern it."""
    (kind,) = _TYPE.unpack_from(record.key)
    if kind in stored.KEY_TYPES and record.value is not None:
        _, *names = read_names(record.key)
        put(group, kind, record.value, *names)


def put(group: ConsumerGroup, kind: int, value: bytes, name: str = "") -> None:
    if kind == stored.GROUP:
        group.latest.set(stored.read_group(value))
    elif kind == stored.PARTITIONS:
        group.has_partitions_record.set(True)
    elif kind == stored.MEMBER:
        group.members[name] = stored.read_member(value, group.members.get(name) or Member(name))
    elif kind == stored.TARGET_EPOCH:
        group.target.set(stored.read_target_epoch(value))
    elif kind == stored.TARGET:
        group.targets[name] = stored.read_target(value)
    elif kind == stored.CURRENT:
        group.members[name] = stored.read_current(value, group.members.get(name) or Member(name))
    elif kind == stored.PATTERN:
        group.patterns[name] = stored.read_matches(value)
