"""Committing, fetching and deleting offsets: what is decided, and the records that say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from ottla.coordinator.group.offset_records import (
    CommittedOffset,
    OffsetKey,
    key_size,
    key_start,
    partition_in_key,
    read_key,
    tombstone,
    usual_value,
    value_size,
    write_value,
)
from ottla.coordinator.group.offset_table import OffsetTable, Place
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.env.slices import Rows
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from ottla.record.batch import HEADER_SIZE
from ottla.record.builder import plain_record_size

_NONE: Final = ErrorCode.none
_FOR_EVER: Final = 2**63 - 1
_OF_OLD: Final = {ErrorCode.stale_member_epoch: ErrorCode.illegal_generation}
_GROUP_MUST_EXIST: Final = 9  # from this version of OffsetCommit on a missing group is called that


class Member(NamedTuple):
    """In whose name offsets are committed. Without a generation: nobody's in the group."""

    group: str
    id: str = ""
    instance_id: str | None = None
    generation: int = -1


class Commit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_EPOCH
    metadata: str | None = None
    topic_id: UUID | None = None


Row = tuple[str, int, int, int, str | None, UUID | None]
"""A Commit, or what could be one: most are made from a request by the dozen."""


class Places(NamedTuple):
    """Partitions of one topic that are committed for again and again, with the keys of their records."""

    topic_id: UUID
    places: Sequence[Place]
    keys: Sequence[bytes]


def places_of(group: str, topic: str, topic_id: UUID, partitions: Iterable[int]) -> Places:
    start = key_start(group, topic)
    numbers = tuple(partitions)
    return Places(topic_id, [(topic, number) for number in numbers], [start + partition_in_key(n) for n in numbers])


class Wanted(NamedTuple):
    """What someone wants to know of a topic. With its id, offsets of an earlier topic of that name do not count."""

    topic: str
    partitions: Sequence[int]
    topic_id: UUID | None = None


class Fetched(NamedTuple):
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_EPOCH
    metadata: str = ""
    code: ErrorCode = _NONE


PartitionCheck = Callable[[UUID | None, int], ErrorCode]
"""Whether a member may commit for a partition of a topic."""
CommitCheck = ErrorCode | PartitionCheck
"""What is to be said to all of a commit, or what is to be asked about each partition: one error is everyone's."""


class OwnerOfOffsets(Protocol):
    """A group, as its offsets see it."""

    def is_subscribed_to(self, topic: str) -> bool: ...
    def expires_from(self, committed_ms: int) -> int | None: ...


class Owners(Protocol):
    """All groups of the shard. One may exist only because offsets were committed for it."""

    def get(self, group_id: str) -> OwnerOfOffsets | None: ...
    def ids(self) -> list[str]: ...
    def ensure(self, group_id: str) -> object: ...
    def check_commit(self, member: Member, version: int, *, transactional: bool = False) -> CommitCheck: ...
    def heard(self, group_id: str, member_id: str) -> None: ...
    def check_offset_delete(self, group_id: str) -> ErrorCode: ...
    def deletion_if_empty(self, group_id: str) -> Sequence[StoredRecord]: ...


class Offsets:
    def __init__(
        self, timeline: Timeline, owners: Owners, now_ms: Callable[[], int], longest_metadata: Callable[[], int]
    ) -> None:
        self.table = OffsetTable(timeline)
        self._timeline = timeline
        self._start = b""  # of the last key, if those that begin in the same way need not be looked at any more
        self._owners = owners
        self._now_ms = now_ms
        self._longest_metadata = longest_metadata

    def replay(self, record: StoredRecord, producer_id: int) -> None:
        raw, value = record
        if value is not None and raw[:-4] == self._start and producer_id < 0:
            self.table.replay_next(int.from_bytes(raw[-4:], "big", signed=True), value)
            return
        key = read_key(raw)
        if value is not None:
            self._owners.ensure(key.group)
        self.table.replay(key, value, producer_id)
        # While a log is loaded most records are of the same group and topic as the one before. Later one before it may
        # be undone, and the group with it.
        is_followed = value is not None and producer_id < 0 and not self._timeline.is_kept
        self._start = raw[:-4] if is_followed else b""

    def something_else(self) -> None:
        """A record of another kind is replayed: the group may be gone with it."""
        self._start = b""

    # -- committing

    def commit(
        self, member: Member, commits: Iterable[Row], version: int, retention_ms: int | None = None
    ) -> Outcome[ErrorCode | list[ErrorCode]]:
        """What became of all, or of each."""
        check = self._check(member, version)
        if isinstance(check, ErrorCode) and check is not _NONE:
            return Outcome(check)
        self._owners.heard(member.group, member.id)
        expire_ms = NO_TIMESTAMP if retention_ms is None else min(self._now_ms() + retention_ms, _FOR_EVER)
        return self._commit(member.group, commits, check, expire_ms, by_id=True)

    def commit_again(
        self, member: Member, of: Places, offsets: Sequence[int], epochs: Sequence[int], version: int
    ) -> Outcome[ErrorCode]:
        """The same for partitions that were committed for before, without metadata."""
        check = self._check(member, version)
        if isinstance(check, ErrorCode) and check is not _NONE:
            return Outcome(check)
        self._owners.heard(member.group, member.id)
        if not isinstance(check, ErrorCode):
            for _, partition in of.places:
                if (code := check(of.topic_id, partition)) is not _NONE:
                    return Outcome(code)
        now_ms, topic_id = self._now_ms(), of.topic_id.bytes
        values = [
            usual_value(offset, epoch, now_ms, topic_id) for offset, epoch in zip(offsets, epochs, strict=True)
        ]  # fmt: skip
        return Outcome(
            _NONE,
            [*map(StoredRecord, of.keys, values)],
            take_over=partial(self._take_over, member.group, of.places, values),
        )

    def _take_over(self, group: str, places: Sequence[Place], values: Sequence[bytes]) -> None:
        self._owners.ensure(group)
        self.table.put_all(group, places, values)

    def commit_in_transaction(self, member: Member, commits: Iterable[Row]) -> Outcome[ErrorCode | list[ErrorCode]]:
        """To be written in the producer's transaction: it counts when that is committed.

        Members need not say who they are. One whose epoch is over is told so in the words of the classic protocol, and
        the topic's id is not written, as Kafka has it.
        """
        if self._owners.get(member.group) is None:
            check: CommitCheck = _NONE if member.generation < 0 else ErrorCode.illegal_generation
        else:
            check = self._owners.check_commit(member, 0, transactional=True)
        if isinstance(check, ErrorCode) and check is not _NONE:
            return Outcome(_OF_OLD.get(check, check))
        outcome = self._commit(member.group, commits, check, NO_TIMESTAMP, by_id=False)
        if isinstance(outcome.reply, ErrorCode) and outcome.reply is not _NONE:
            return Outcome(_OF_OLD.get(outcome.reply, outcome.reply))
        return outcome

    def _commit(
        self, group: str, commits: Iterable[Row], check: CommitCheck, expire_ms: int, *, by_id: bool
    ) -> Outcome[ErrorCode | list[ErrorCode]]:
        now_ms, longest = self._now_ms(), self._longest_metadata()
        codes: list[ErrorCode] = []
        places: list[Place] = []
        records: list[StoredRecord] = []
        asks = not isinstance(check, ErrorCode)
        of: tuple[str, UUID | None] | None = None
        start = named = b""
        for topic, partition, offset, epoch, metadata, topic_id in commits:
            if metadata and _is_longer(metadata, longest):
                codes.append(ErrorCode.offset_metadata_too_large)
                continue
            if asks and (code := check(topic_id, partition)) is not _NONE:  # type: ignore[operator]
                return Outcome(code)
            codes.append(_NONE)
            if of is None or of[0] is not topic or of[1] is not topic_id:
                of = (topic, topic_id)
                start = key_start(group, topic)
                named = topic_id.bytes if topic_id is not None and by_id else b""
            places.append((topic, partition))
            if named and not metadata and expire_ms == NO_TIMESTAMP:
                value = usual_value(offset, epoch, now_ms, named)
            else:
                value = write_value(
                    CommittedOffset(offset, epoch, metadata or "", now_ms, expire_ms, topic_id if by_id else None)
                )
            records.append(StoredRecord(start + partition_in_key(partition), value))

        told = _NONE if len(records) == len(codes) else codes
        if not by_id or not records:
            return Outcome(told, records)
        values = [value for _, value in records if value is not None]
        return Outcome(told, records, take_over=partial(self._take_over, group, places, values))

    def size_of(self, group: str, commits: Iterable[Row], retention_ms: int | None = None) -> int:
        """Bytes of the batch that a commit would be: to be known before it is made, and takes its time."""
        size, records, longest = HEADER_SIZE, 0, self._longest_metadata()
        keys: dict[str, int] = {}
        for topic, _, _, _, text, topic_id in Rows(commits):
            metadata = text or ""
            if _is_longer(metadata, longest):
                continue
            key = keys.get(topic) or keys.setdefault(topic, key_size(group, topic))
            value = value_size(metadata, has_topic_id=topic_id is not None, expires=retention_ms is not None)
            size += plain_record_size(records, key, value)
            records += 1
        return size

    def _check(self, member: Member, version: int) -> CommitCheck:
        if self._owners.get(member.group) is None:
            if member.generation < 0:  # of an administrator, or of a consumer that takes its partitions itself
                return _NONE
            return ErrorCode.group_id_not_found if version >= _GROUP_MUST_EXIST else ErrorCode.illegal_generation
        return self._owners.check_commit(member, version)

    # -- fetching

    def fetch(self, group: str, wanted: Iterable[Wanted], *, stable: bool) -> list[list[Fetched]]:
        """For each partition that is asked for. `stable`: also what is not committed yet; the caller waits for it."""
        return [
            [self._fetch(OffsetKey(group, topic, partition), topic_id, stable) for partition in partitions]
            for topic, partitions, topic_id in wanted
        ]

    def _fetch(self, key: OffsetKey, topic_id: UUID | None, stable: bool) -> Fetched:
        if stable and self.table.has_pending(key):
            return Fetched(key.partition, code=ErrorCode.unstable_offset_commit)
        found = self.table.get(key, committed_only=not stable)
        if found is None or (topic_id is not None and found.topic_id not in (None, topic_id)):
            return Fetched(key.partition)
        return _fetched(key, found)

    def fetch_all(self, group: str, *, stable: bool) -> dict[str, list[Fetched]]:
        by_topic: dict[str, list[Fetched]] = {}
        for key, found in self.table.of_group(group, committed_only=not stable):
            unstable = stable and self.table.has_pending(key)
            answer = Fetched(key.partition, code=ErrorCode.unstable_offset_commit) if unstable else _fetched(key, found)
            by_topic.setdefault(key.topic, []).append(answer)
        return by_topic

    # -- deleting

    def delete(self, group: str, topics: Iterable[Wanted]) -> Outcome[ErrorCode | list[ErrorCode]]:
        """An error for all, or one for each topic: no one deletes what members still read."""
        code = self._owners.check_offset_delete(group)
        owner = self._owners.get(group)
        if code is not _NONE or owner is None:
            return Outcome(code)
        codes: list[ErrorCode] = []
        records: list[StoredRecord] = []
        for topic, partitions, _ in topics:
            if owner.is_subscribed_to(topic):
                codes.append(ErrorCode.group_subscribed_to_topic)
                continue
            codes.append(_NONE)
            for partition in partitions:
                key = OffsetKey(group, topic, partition)
                if self.table.get(key) is not None or self.table.has_pending(key):
                    records.append(tombstone(key))
        return Outcome(codes, records)

    def delete_all(self, group: str) -> list[StoredRecord]:
        """With the group itself, whose deletion is the caller's to decide."""
        keys = {key: None for key, _ in self.table.of_group(group)}
        return [tombstone(key) for key in keys | dict.fromkeys(self.table.pending_of(group))]


def _fetched(key: OffsetKey, found: CommittedOffset) -> Fetched:
    return Fetched(key.partition, found.offset, found.leader_epoch, found.metadata)


def _is_longer(text: str, longest: int) -> bool:
    """Kafka counts UTF-16 units."""
    return 2 * len(text) > longest and len(text.encode("utf-16-le")) > 2 * longest
