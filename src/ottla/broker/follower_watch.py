"""What a leader keeps of a follower's fetch session: which of its partitions have something to say.

A follower fetches thousands of partitions, of which most rest. They are looked at only when they were written to, or
something else about them has changed; a partition that rests with a follower in sync costs nothing, request by request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.replica.partition import Partition

# The topic's name or id, as the request has it, and the partition. Ids are bytes, which are quick to hash.
Key = tuple[str | bytes, int]


class WaitingFetch(Protocol):
    def woken(self) -> None:
        """There is something new."""

    def dismissed(self) -> None:
        """The follower has sent its next request: this one is answered, with whatever there is."""


class FollowerWatch:
    """Is told by partitions what happens to them (an AppendWatcher)."""

    def __init__(self, replica: int) -> None:
        self.replica = replica
        self.broker_epoch = -1
        self.active: dict[Key, None] = {}
        self.waiting: WaitingFetch | None = None
        self._fetched_at = 0.0
        self._watched: dict[Key, Partition] = {}
        self._keys: dict[Partition, Key] = {}

    def begin(self, now: float, broker_epoch: int, changed: Iterable[Key], every: Iterable[Key]) -> None:
        """A request has come, which names what has changed with the follower."""
        if self.waiting is not None:
            self.waiting.dismissed()
        self._fetched_at = now
        for key in every if broker_epoch != self.broker_epoch else changed:
            self.active[key] = None
        self.broker_epoch = broker_epoch

    def watch(self, key: Key, partition: Partition) -> None:
        if self._watched.get(key) is not partition:
            is_active = key in self.active
            self.forget((key,))
            if is_active:
                self.active[key] = None
            self._watched[key] = partition
            self._keys[partition] = key
            partition.watchers[self] = None

    def led(self, key: Key) -> Partition | None:
        """The partition, if it was found before and is still led here."""
        partition = self._watched.get(key)
        return partition if partition is not None and partition.is_leader else None

    def rests(self, key: Key, partition: Partition) -> None:
        """Nothing new is in it. One that is not in sync is looked at with every fetch: it may join at any time."""
        leading = partition.leading
        if leading is not None and leading.isr.change is None and self.replica in leading.isr.committed:
            self.active.pop(key, None)

    def gave(self, key: Key) -> None:
        """To the end of the row, so that a busy partition cannot starve the others."""
        self.active.pop(key, None)
        self.active[key] = None

    def appended(self, partition: Partition) -> None:
        key = self._keys.get(partition)
        if key is not None and key not in self.active:
            self.active[key] = None
            leading = partition.leading
            follower = leading.followers.get(self.replica) if leading is not None else None
            if follower is not None:  # until now it had everything
                follower.caught_up_at = max(follower.caught_up_at, self._fetched_at)
        if self.waiting is not None:
            self.waiting.woken()

    def changed(self, partition: Partition) -> None:
        """Not its records, but who leads it, or how far it is committed."""
        key = self._keys.get(partition)
        if key is not None:
            self.active[key] = None

    def forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self.active.pop(key, None)
            partition = self._watched.pop(key, None)
            if partition is not None:
                del self._keys[partition]
                partition.watchers.pop(self, None)

    def close(self) -> None:
        self.forget(list(self._watched))
        self.active.clear()
