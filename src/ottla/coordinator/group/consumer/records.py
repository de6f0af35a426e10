"""The records of consumer groups in `__consumer_offsets`, in Kafka 4.3's one version (0), written as Kafka does.

3   group           ConsumerGroupMetadata: its epoch, and a hash of the topics that it subscribes to
4   group           ConsumerGroupPartitionMetadata: Kafka 4.0 kept the topics here; only deleted nowadays
5   group, member   ConsumerGroupMemberMetadata: what the member says of itself
6   group           ConsumerGroupTargetAssignmentMetadata: the epoch that the target assignment is for
7   group, member   ConsumerGroupTargetAssignmentMember: what the member is to have
8   group, member   ConsumerGroupCurrentMemberAssignment: how far it has come
16  group, pattern  ConsumerGroupRegularExpression: the topics that match
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.classic.requests import Protocol
from ottla.coordinator.group.consumer.codec import (
    INT,
    LONG,
    NO_TAGS,
    Reader,
    array,
    blob,
    ints,
    key_of,
    reading,
    tag,
    text,
)
from ottla.coordinator.group.consumer.members import Assigned, ClassicMember, Member, MemberState
from ottla.coordinator.machine import StoredRecord

GROUP, PARTITIONS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN = 3, 4, 5, 6, 7, 8, 16
KEY_TYPES: Final = frozenset((GROUP, PARTITIONS, MEMBER, TARGET_EPOCH, TARGET, CURRENT, PATTERN))

_VERSION: Final = b"\x00\x00"


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int = 0


class TargetEpoch(NamedTuple):
    epoch: int
    computed_ms: int = 0
    """0: never, or by a Kafka before 4.3 (KIP-1263)."""


class Matches(NamedTuple):
    """The topics that match a pattern, in the metadata as it was at an offset and a time."""

    topics: frozenset[str] = frozenset()
    metadata_offset: int = -1
    at_ms: int = -1


# -- writing


def group_record(group_id: str, group: GroupEpoch) -> StoredRecord:
    tags = tag(0, LONG.pack(group.metadata_hash)) if group.metadata_hash else NO_TAGS
    return StoredRecord(key_of(GROUP, group_id), _VERSION + INT.pack(group.epoch) + tags)


def member_record(group_id: str, member: Member) -> StoredRecord:
    topics = sorted(member.topics)
    parts = (
        _VERSION,
        text(member.instance_id),
        text(member.rack),
        text(member.client_id),
        text(member.client_host),
        array(map(text, topics), len(topics)),
        text(member.pattern),
        INT.pack(member.rebalance_timeout_ms),
        text(member.assignor),
        tag(0, _classic(member.classic)),
    )
    return StoredRecord(key_of(MEMBER, group_id, member.id), b"".join(parts))


def _classic(member: ClassicMember | None) -> bytes:
    """It is there even if it says that there is nothing: to Kafka a missing field is a classic member."""
    if member is None:
        return b"\x00"
    protocols = [text(protocol.name) + blob(protocol.metadata) + NO_TAGS for protocol in member.protocols]
    return b"\x01" + INT.pack(member.session_timeout_ms) + array(protocols, len(protocols)) + NO_TAGS


def target_epoch_record(group_id: str, target: TargetEpoch) -> StoredRecord:
    tags = tag(0, LONG.pack(target.computed_ms)) if target.computed_ms else NO_TAGS
    return StoredRecord(key_of(TARGET_EPOCH, group_id), _VERSION + INT.pack(target.epoch) + tags)


def target_record(group_id: str, member_id: str, target: Assignment) -> StoredRecord:
    topics = (
        topic_id.bytes + ints(sorted(partitions), len(partitions)) + NO_TAGS for topic_id, partitions in target.items()
    )
    return StoredRecord(key_of(TARGET, group_id, member_id), _VERSION + array(topics, len(target)) + NO_TAGS)


def current_record(group_id: str, member: Member) -> StoredRecord:
    parts = (
        _VERSION,
        INT.pack(member.epoch),
        INT.pack(member.previous_epoch),
        bytes((member.state,)),
        _assigned(member.assigned),
        _assigned(member.revoking),
        NO_TAGS,
    )
    return StoredRecord(key_of(CURRENT, group_id, member.id), b"".join(parts))


def _assigned(assigned: Assigned) -> bytes:
    topics = (
        topic_id.bytes + ints(epochs, len(epochs)) + tag(0, ints(epochs.values(), len(epochs)))
        for topic_id, epochs in assigned.items()
    )
    return array(topics, len(assigned))


def pattern_record(group_id: str, pattern: str, matches: Matches) -> StoredRecord:
    topics = sorted(matches.topics)
    value = array(map(text, topics), len(topics)) + LONG.pack(matches.metadata_offset) + LONG.pack(matches.at_ms)
    return StoredRecord(key_of(PATTERN, group_id, pattern), _VERSION + value + NO_TAGS)


def deletion(kind: int, *names: str) -> StoredRecord:
    return StoredRecord(key_of(kind, *names), None)


def member_deletions(group_id: str, member_id: str) -> list[StoredRecord]:
    """In this order: Kafka refuses to load a log in which a member goes before what it has."""
    return [deletion(kind, group_id, member_id) for kind in (CURRENT, TARGET, MEMBER)]


def group_deletions(group_id: str, member_ids: Iterable[str], patterns: Iterable[str]) -> list[StoredRecord]:
    members = list(member_ids)
    return [
        *(deletion(CURRENT, group_id, member_id) for member_id in members),
        *(deletion(TARGET, group_id, member_id) for member_id in members),
        deletion(TARGET_EPOCH, group_id),
        *(deletion(MEMBER, group_id, member_id) for member_id in members),
        *(deletion(PATTERN, group_id, pattern) for pattern in patterns),
        deletion(PARTITIONS, group_id),
        deletion(GROUP, group_id),
    ]


# -- reading


def read_group(value: bytes) -> GroupEpoch:
    return reading(lambda reader: GroupEpoch(reader.int32(), reader.tagged(reader.int64, 0)), value)


def read_target_epoch(value: bytes) -> TargetEpoch:
    return reading(lambda reader: TargetEpoch(reader.int32(), reader.tagged(reader.int64, 0)), value)


def read_member(value: bytes, before: Member) -> Member:
    """The member with what the record says; how far it is stays as it was."""

    def read(reader: Reader) -> Member:
        return before._replace(
            instance_id=reader.nullable_text(),
            rack=reader.nullable_text(),
            client_id=reader.text(),
            client_host=reader.text(),
            topics=frozenset(reader.array(reader.text)),
            pattern=reader.nullable_text(),
            rebalance_timeout_ms=reader.int32(),
            assignor=reader.nullable_text(),
            classic=reader.tagged(lambda: _read_classic(reader), ClassicMember()),
        )

    return reading(read, value)


def _read_classic(reader: Reader) -> ClassicMember | None:
    if reader.varint() == 0:
        return None

    def protocol() -> Protocol:
        read = Protocol(reader.text(), reader.blob())
        reader.skip_tags()
        return read

    member = ClassicMember(reader.int32(), tuple(reader.array(protocol)))
    reader.skip_tags()
    return member


def read_target(value: bytes) -> Assignment:
    def read(reader: Reader) -> Assignment:
        target = {}
        for _ in range(reader.size()):
            topic_id, partitions = reader.uuid(), frozenset(reader.ints())
            reader.skip_tags()
            if partitions:
                target[topic_id] = partitions
        reader.skip_tags()
        return target

    return reading(read, value)


def read_current(value: bytes, before: Member) -> Member:
    def read(reader: Reader) -> Member:
        epoch, previous_epoch, state = reader.int32(), reader.int32(), MemberState(reader.byte())
        assigned, revoking = _read_assigned(reader, max(epoch, 0)), _read_assigned(reader, max(epoch, 0))
        reader.skip_tags()
        return before._replace(
            epoch=epoch, previous_epoch=previous_epoch, state=state, assigned=assigned, revoking=revoking
        )

    return reading(read, value)


def _read_assigned(reader: Reader, otherwise: int) -> Assigned:
    """Before 4.3 nothing was written of the epochs in which partitions were assigned: then it is the member's."""
    assigned: dict[UUID, dict[int, int]] = {}
    for _ in range(reader.size()):
        topic_id, partitions = reader.uuid(), reader.ints()
        epochs: tuple[int, ...] = reader.tagged(reader.ints, ())
        if len(epochs) != len(partitions):
            epochs = (otherwise,) * len(partitions)
        if partitions:
            assigned[topic_id] = dict(zip(partitions, epochs, strict=True))
    return assigned


def read_matches(value: bytes) -> Matches:
    def read(reader: Reader) -> Matches:
        matches = Matches(frozenset(reader.array(reader.text)), reader.int64(), reader.int64())
        reader.skip_tags()
        return matches

    return reading(read, value)
