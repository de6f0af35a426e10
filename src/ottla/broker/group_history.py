"""Keeps the history of groups in a topic of its own, beside `__consumer_offsets` and partitioned like it.

What happens to groups is thought about a moment later, in a task that lets others have the loop, and written in
batches.
Nothing waits for it: what was noted in the last moments before a kill is lost, and what was written before stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.group_history_place import HistoryPlace
from ottla.broker.group_metrics import RebalanceMetrics
from ottla.coordinator.group.events import Event, Topic
from ottla.coordinator.group.hashing import group_hash
from ottla.coordinator.group.history.coding import MEMBERS, Unreadable, read_key
from ottla.coordinator.group.history.contacts import Connection
from ottla.coordinator.group.history.entries import End, Rebalance
from ottla.coordinator.group.history.historian import Historian, Readiness
from ottla.coordinator.group.history.incidents import CommitsStalled
from ottla.coordinator.group.history.rebalances import Topics
from ottla.coordinator.group.history.words import in_one_line
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import Shard
from ottla.env.breath import Breath
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.env.timers import TimerWheel
from ottla.metadata.image import MetadataImage
from ottla.model.errors import KafkaError
from ottla.model.names import HISTORY_TOPIC

if TYPE_CHECKING:
    from ottla.env.metrics import Gathered

_log = logging.getLogger("ottla.coordinator.group")
_SOON_MS: Final = 100
_LATER_MS: Final = 2000  # when something has to be there first


class GroupHistory:
    def __init__(self, env: Env, timers: TimerWheel, image: Callable[[], MetadataImage], place: HistoryPlace) -> None:
        self._env = env
        self._timers = timers
        self._image = image
        self._place = place
        self._is_due = False
        self._metrics = RebalanceMetrics()
        self._tasks = Tasks(lambda error: _log.error("the history of groups failed: %s", error, exc_info=error))
        self._historian = Historian(env.clock.now_ms, Topics(self._name_of, self._partitions_of), self._ended)
        self.runtime: Runtime[HistoryMachine] = Runtime(env, timers, self._make)

    # -- what happens

    def note(self, event: Event) -> None:
        self._historian.note(event)
        self._think_soon()

    def heard(self, group_id: str, member_id: str, connection: Connection) -> None:
        self._historian.heard(group_id, member_id, connection)

    def committed(self, group_id: str, member_id: str, connection: Connection) -> None:
        self._historian.committed(group_id, member_id, connection)

    def left(self, group_id: str, member_id: str, connection: Connection) -> None:
        self._historian.left(group_id, member_id, connection)

    def stalled(self, group_id: str, since_ms: int, lag: list[str]) -> None:
        self.note(CommitsStalled(self._env.clock.now_ms(), group_id, -1, since_ms, tuple(lag)))

    def stood_still(self, seconds: float) -> None:
        """This node itself."""
        self._historian.stood_still(int(seconds * 1000))

    def lost(self, connection: Connection, end: str) -> None:
        self._historian.lost(connection, End(end))
        if self._historian.has_work:
            self._think_soon()

    # -- thinking and writing

    def _think_soon(self, delay_ms: int = _SOON_MS) -> None:
        if not self._is_due:
            self._is_due = True
            self._timers.after(delay_ms, self._begin)

    def _begin(self) -> None:
        self._tasks.start(self._think(), "history of groups")

    async def _think(self) -> None:
        breath = Breath(self._env.clock)
        try:
            for group_id, records in self._historian.think(self._readiness):
                self._write(group_id, records)
                await breath.take()
        finally:
            self._is_due = False
        if self._historian.has_work:
            await self._place.prepare({group_hash(group_id) for group_id in self._historian.waiting})
            self._think_soon(_LATER_MS)

    def _readiness(self, group_id: str) -> Readiness:
        partition = self.partition_of(group_id)
        if partition is None:
            return Readiness.NOT_WRITABLE  # there is no topic yet, so nothing can be in it
        try:
            self.runtime.shard(partition)
        except KafkaError:
            return Readiness.LOADING if self._place.coordinates(group_hash(group_id)) else Readiness.ELSEWHERE
        return Readiness.WRITABLE

    def _write(self, group_id: str, records: list[StoredRecord]) -> None:
        partition = self.partition_of(group_id)
        if not records or partition is None:
            return
        try:
            self.runtime.shard(partition).write(lambda machine: Outcome(None, records))
        except KafkaError as error:
            _log.warning("what was remembered of group %s could not be written: %s", group_id, error)

    def partition_of(self, group_id: str) -> int | None:
        topic = self._image().topic(HISTORY_TOPIC)
        return None if topic is None else group_hash(group_id) % len(topic.partitions)

    async def stop(self) -> None:
        await self._tasks.stop()
        for group_id, records in self._historian.think(self._readiness):
            self._write(group_id, records)
        await asyncio.sleep(0)  # the shards append at the end of a turn
        await self.runtime.stop()

    # -- what is in the metadata

    def _name_of(self, topic: Topic) -> str:
        if isinstance(topic, str):
            return topic
        found = self._image().topics.get(topic)
        return str(topic) if found is None else found.name

    def _partitions_of(self, name: str) -> int | None:
        topic = self._image().topic(name)
        return None if topic is None else len(topic.partitions)

    # -- coordinators come and go

    def _make(self, shard: Shard[HistoryMachine]) -> HistoryMachine:
        return HistoryMachine(self._historian, lambda: self._groups_in(shard.partition.key.partition))

    def _groups_in(self, partition: int) -> list[str]:
        return [group_id for group_id in self._historian.groups if self.partition_of(group_id) in (partition, None)]

    # -- telling

    def _ended(self, group_id: str, rebalance: Rebalance) -> None:
        self._metrics.note(rebalance)
        _log.info("group %s: %s", group_id, in_one_line(rebalance), extra={"group": group_id})

    def collect(self) -> Iterator[Gathered]:
        return self._metrics.collect()


class HistoryMachine:
    """What one partition of the topic holds. Only who is in a group is needed of it; the rest is for readers."""

    def __init__(self, historian: Historian, groups: Callable[[], list[str]]) -> None:
        self._historian = historian
        self._groups = groups
        self._is_loading = True

    def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
        if not self._is_loading:
            return
        try:
            group_id, slot = read_key(record.key)
        except Unreadable:
            return
        if slot == MEMBERS:
            self._historian.remember(group_id, record.value)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """Nobody writes to this topic in transactions."""

    def started(self) -> None:
        self._is_loading = False

    def stopped(self) -> None:
        for group_id in self._groups():
            self._historian.forget(group_id)
