"""Offsets that go by themselves: those that nobody has committed for a long time, and those of deleted topics.

A sweep walks over all groups of a shard, a few in a turn: neither the loop nor a batch of records is overloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from ottla.coordinator.group.offset_records import CommittedOffset, tombstone
from ottla.coordinator.group.offset_table import OffsetTable
from ottla.coordinator.group.offsets import OwnerOfOffsets, Owners
from ottla.coordinator.machine import Outcome, StoredRecord, Timers
from ottla.model.names import NO_TIMESTAMP

_GROUPS_A_TURN: Final = 200
_RECORDS_A_TURN: Final = 1000
_EXPIRY: Final = "expire offsets"
Look = Callable[[str], Iterator[StoredRecord]]


class OffsetSweep:
    def __init__(
        self,
        table: OffsetTable,
        owners: Owners,
        timers: Timers,
        now_ms: Callable[[], int],
        retention_ms: Callable[[], int],
        interval_ms: Callable[[], int],
    ) -> None:
        self._table = table
        self._owners = owners
        self._timers = timers
        self._now_ms = now_ms
        self._retention_ms = retention_ms
        self._interval_ms = interval_ms

    # -- what has expired

    def start(self) -> None:
        self._timers.set(_EXPIRY, self._interval_ms(), self._expire)

    def _expire(self) -> Outcome[None]:
        return self._walk(_EXPIRY, self._owners.ids(), self._expired, self.start)

    def _expired(self, group_id: str) -> Iterator[StoredRecord]:
        """And the group itself, if nothing is left of it."""
        owner = self._owners.get(group_id)
        if owner is None:
            return
        now_ms, all_expired = self._now_ms(), True
        for key, committed in self._table.of_group(group_id):
            if self._has_expired(owner, key.topic, committed, now_ms) and not self._table.has_pending(key):
                yield tombstone(key)
            else:
                all_expired = False
        if all_expired and not self._table.pending_of(group_id):
            self._table.forget_empty(group_id)
            yield from self._owners.deletion_if_empty(group_id)

    def _has_expired(self, owner: OwnerOfOffsets, topic: str, committed: CommittedOffset, now_ms: int) -> bool:
        since = owner.expires_from(committed.commit_ms)
        if since is None or owner.is_subscribed_to(topic):
            return False
        if committed.expire_ms != NO_TIMESTAMP:
            return now_ms >= committed.expire_ms
        return now_ms - since >= self._retention_ms()

    # -- what was deleted

    def forget_topics(self, topics: Mapping[str, UUID]) -> Outcome[None]:
        """Of topics that are gone; one that has taken such a name since keeps what is committed for it."""

        def forgotten(group_id: str) -> Iterator[StoredRecord]:
            for key, committed in self._table.of_group(group_id):
                if key.topic in topics and committed.topic_id in (None, topics[key.topic]):
                    yield tombstone(key)
            for key in self._table.pending_of(group_id):
                if key.topic in topics and self._table.get(key) is None:
                    yield tombstone(key)

        return self._walk(("forget topics", *topics), self._table.groups(), forgotten, lambda: None)

    def _walk(self, name: object, groups: list[str], look: Look, done: Callable[[], None]) -> Outcome[None]:
        """Takes groups from the end of the list; what is found is gone from the table before the next turn."""
        records: list[StoredRecord] = []
        for _ in range(min(_GROUPS_A_TURN, len(groups))):
            room = _RECORDS_A_TURN - len(records)
            found = list(islice(look(groups[-1]), room))
            records += found
            if len(found) == room:  # there may be more
                break
            groups.pop()
        if groups:
            self._timers.set(name, 0, lambda: self._walk(name, groups, look, done))
        else:
            done()
        return Outcome(None, records)
