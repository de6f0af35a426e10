"""The committed offsets of one shard, by group, and those of transactions that are not over yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.coordinator.group.offset_records import CommittedOffset, OffsetKey, read_value
from ottla.coordinator.timeline import Timeline, TimelineDict

_Stored = tuple[int, bytes]
"""The offset of a record, and its value as it is in the log: most of what a start loads is never asked for."""
Place = tuple[str, int]
_Partitions = TimelineDict[Place, _Stored]
_NONE_PENDING: Final[Mapping[OffsetKey, _Stored]] = {}


class OffsetTable:
    """`committed_only` leaves out what an append that is under way may still take back."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._by_group: dict[str, _Partitions] = {}
        self._last: _Partitions = TimelineDict(timeline)  # of the group that was put to last, and for which topic
        self._last_topic = ""
        self._pending: TimelineDict[int, Mapping[OffsetKey, _Stored]] = TimelineDict(timeline)  # by producer id

    # -- looking

    def get(self, key: OffsetKey, *, committed_only: bool = False) -> CommittedOffset | None:
        partitions = self._by_group.get(key.group)
        if partitions is None:
            return None
        place = (key.topic, key.partition)
        stored = partitions.committed_get(place) if committed_only else partitions.get(place)
        return None if stored is None else read_value(stored[1])

    def of_group(self, group: str, *, committed_only: bool = False) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        partitions = self._by_group.get(group)
        if partitions is not None:
            for (topic, partition), stored in partitions.committed_items() if committed_only else partitions.items():
                yield OffsetKey(group, topic, partition), read_value(stored[1])

    def stored(self, group: str) -> list[tuple[tuple[str, int], bytes]]:
        """What is committed, by topic and partition, as it is in the log; a list, so that one may take one's time."""
        partitions = self._by_group.get(group)
        return [] if partitions is None else [(place, value) for place, (_, value) in partitions.committed_items()]

    def groups(self) -> list[str]:
        """All that have or had offsets, or have some in a transaction."""
        pending = {key.group: None for _, offsets in self._pending.items() for key in offsets}
        return list(self._by_group | pending)

    def has_pending(self, key: OffsetKey) -> bool:
        """Whether there is one in a transaction that is not over."""
        return any(key in offsets for _, offsets in self._pending.items())

    def pending_of(self, group: str) -> list[OffsetKey]:
        return [key for _, offsets in self._pending.items() for key in offsets if key.group == group]

    # -- what records say

    def replay(self, key: OffsetKey, value: bytes | None, producer_id: int) -> None:
        if value is None:
            self._remove(key)
        elif producer_id >= 0:
            stored = (self._timeline.offset, value)
            self._pending[producer_id] = {**(self._pending.get(producer_id) or _NONE_PENDING), key: stored}
        else:
            self._put(key, (self._timeline.offset, value))

    def replay_next(self, partition: int, value: bytes) -> None:
        """Of the same group and topic as the record before."""
        self._last[self._last_topic, partition] = (self._timeline.offset, value)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Of two commits for a partition the one that was written later counts, whenever its transaction ended."""
        for key, stored in (self._pending.pop(producer_id) or _NONE_PENDING).items():
            if is_commit:
                partitions = self._by_group.get(key.group)
                existing = partitions.get((key.topic, key.partition)) if partitions is not None else None
                if existing is None or stored[0] > existing[0]:
                    self._put(key, stored)

    def forget_empty(self, group: str) -> None:
        """Frees what a group without offsets still takes."""
        partitions = self._by_group.get(group)
        if partitions is not None and not partitions and partitions.is_settled:
            del self._by_group[group]

    def put_all(self, group: str, places: Sequence[Place], values: Sequence[bytes]) -> None:
        """The same as replaying the records of a commit that is in no transaction, and is not divided."""
        at = self._timeline.offset
        self._of(group).put_all(places, [*enumerate(values, at)])

    def _put(self, key: OffsetKey, stored: _Stored) -> None:
        self._last, self._last_topic = self._of(key.group), key.topic
        self._last[key.topic, key.partition] = stored

    def _of(self, group: str) -> _Partitions:
        partitions = self._by_group.get(group)
        if partitions is None:
            partitions = self._by_group[group] = TimelineDict(self._timeline)
        return partitions

    def _remove(self, key: OffsetKey) -> None:
        partitions = self._by_group.get(key.group)
        if partitions is not None:
            partitions.pop((key.topic, key.partition))
        for producer_id, offsets in list(self._pending.items()):
            if key in offsets:
                self._pending[producer_id] = {other: stored for other, stored in offsets.items() if other != key}
