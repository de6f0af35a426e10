"""Offsets that go by themselves: those that nobody has committed for a long time, and those of deleted topics.

A sweep walks over all groups of a shard, a few in a turn: neither the loop nor a batch of records is overloaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.group.offset_records import CommittedOffset, tombstone
from ottla.coordinator.group.offset_table import OffsetTable
from ottla.coordinator.group.offsets import OwnerOfOffsets, Owners
from ottla.coordinator.machine import Outcome, StoredRecord, Timers
from ottla.model.errors import OttlaError
from ottla.model.names import NO_TIMESTAMP

_GROUPS_A_TURN: Final = 200
_RECORDS_A_TURN: Final = 1000
_EXPIRY: Final = "expire offsets"
_log = logging.getLogger("ottla.coordinator")


class _Walk(NamedTuple):
    name: object
    groups: list[str]
    look: Callable[[str], Iterator[StoredRecord]]
    again: Callable[[], Outcome[None]] | None
    """How to begin anew after a failure, if not where it failed."""
    done: Callable[[], None]


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
        """Tables of groups that are gone stay until here: when a group goes, its last records may still be undone."""
        self.start()  # for the next, whatever becomes of this one
        groups = list(dict.fromkeys((*self._table.groups(), *self._owners.ids())))
        return self._walk(_Walk(_EXPIRY, groups, self._expired, self._expire, self.start), len(groups))

    def _expired(self, group_id: str) -> Iterator[StoredRecord]:
        """And the group itself, if nothing is left of it."""
        owner = self._owners.get(group_id)
        if owner is None:
            self._table.forget_empty(group_id)
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

        groups = self._table.groups()
        name = ("forget topics", *topics.items())
        walk = _Walk(name, groups, forgotten, None, lambda: self._timers.cancel(name))
        return self._walk(walk, len(groups))

    # -- going through groups

    def _walk(self, walk: _Walk, left: int) -> Outcome[None]:
        """Takes groups from the end of the list; what is found is gone from the table before the next turn.

        The next turn comes once this one is committed. If that fails, or this raises, another begins much later:
        whatever is in the way of it will not be gone in a moment.
        """
        self._timers.set(walk.name, self._interval_ms(), walk.again or (lambda: self._walk(walk, left)))
        records: list[StoredRecord] = []
        to_go = left
        for _ in range(min(_GROUPS_A_TURN, left)):
            room = _RECORDS_A_TURN - len(records)
            found = self._found(walk, walk.groups[to_go - 1], room)
            records += found
            if len(found) == room:  # there may be more
                break
            to_go -= 1

        def committed() -> None:
            if to_go:
                self._timers.set(walk.name, 0, lambda: self._walk(walk, to_go))
            else:
                walk.done()

        return Outcome(None, records, committed=committed)

    def _found(self, walk: _Walk, group_id: str, most: int) -> list[StoredRecord]:
        try:
            return list(islice(walk.look(group_id), most))
        except OttlaError as error:  # one that cannot be read is not in the way of the others
            _log.error("offsets of the group %s stay, though they may have expired: %s", group_id, error)
            return []
