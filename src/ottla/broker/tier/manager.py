"""The remote tier of this broker: sees to it that every partition that uses it is tended, and knows how it stands."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ottla.broker.tier.deleted_topics import DeletedTopics
from ottla.broker.tier.leader_work import LeadershipOver, LeaderWork
from ottla.broker.tier.metadata_topic import LogKey, TierMetadata
from ottla.broker.tier.metrics import Counts, CountsByTopic, TierMetrics
from ottla.broker.tier.new_followers import NewFollowers
from ottla.broker.tier.pace import LOOK_S, CopyPace
from ottla.broker.tier.quota import COPY, TierQuota
from ottla.broker.tier.reads import TierRead, TierReads
from ottla.broker.tier.settings import store_place
from ottla.env.backoff import Backoff
from ottla.env.breath import Breath
from ottla.env.object_store import ObjectStore
from ottla.env.tasks import Tasks
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.model.errors import OttlaError
from ottla.model.names import NO_OFFSET, REMOTE_METADATA_TOPIC
from ottla.replica.partition import Partition
from ottla.tier.remote_log import RemoteLog

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.tier")
_SOON_S: Final = 0.2


class _Job:
    """Something that is done again and again."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.due = 0.0
        self.failures = 0
        self.begun_in: tuple[int, bool, bool] | None = None
        """The leader's epoch, and what the topic's configs said, when it was last begun: if that changes it is due."""

    @property
    def is_busy(self) -> bool:
        return self.task is not None and not self.task.done()


class _Tended:
    """A partition of this broker that uses the tier. Neither job waits for the other: a store may refuse one of them,
    and to copy may take long."""

    def __init__(self) -> None:
        self.copying = _Job()
        self.expiring = _Job()
        self.being_copied: set[UUID] = set()
        self.is_being_emptied = False


class TierManager:
    def __init__(self, node: Node) -> None:
        self._node = node
        config = node.config
        self.store: ObjectStore = node.env.open_store(*store_place(config))
        self.metadata = TierMetadata(node)
        self.counts: CountsByTopic = defaultdict(Counts)
        self.reads = TierReads(node, self.metadata, self.store, self.counts)
        node.env.metrics.add(TierMetrics(self).collect)
        if node.replicas.replication is not None:
            node.replicas.replication.fetchers.tier = NewFollowers(self.metadata, self.reads.chunks, self.counts)
        self._deleted = DeletedTopics(node, self.metadata, self.store)
        self._copy_quota = TierQuota(node.env, lambda: node.config, COPY)
        self._pace = CopyPace(
            node.env.clock,
            node.loop_lag,
            lambda: node.replicas.tally.bytes_appended,
            lambda: (partition for partition, _ in self.led()),
            lambda: node.config.get_int("ottla.remote.copy.backlog.bytes"),
        )
        self.rounds = 0  # how often it was looked for what is due
        self._tended: dict[LogKey, _Tended] = {}
        self._cleared: dict[LogKey, _Job] = {}
        self._copying = _Places("remote.log.manager.copier.thread.pool.size", node)
        self._expiring = _Places("remote.log.manager.expiration.thread.pool.size", node)
        self._tasks = Tasks(lambda error: _log.error("the remote tier: %r", error, exc_info=error))
        self._reading = Tasks(lambda error: _log.error("a read from the remote tier failed: %r", error, exc_info=error))
        self._woken = asyncio.Event()
        self._backoff = Backoff(
            config.get_int("remote.log.manager.task.retry.backoff.ms"),
            config.get_int("remote.log.manager.task.retry.backoff.max.ms"),
            config.get_float("remote.log.manager.task.retry.jitter"),
        )

    async def start(self) -> None:
        await self._node.feed.subscribe(self.publish)
        self._tasks.start(self._run(), "the remote tier")
        self._tasks.start(self._keep_pace(), "the pace of copies to the remote tier")

    async def stop(self) -> None:
        self._pace.end()
        await self._tasks.stop()
        await self._reading.stop()
        await self.reads.close()
        await self.metadata.stop()
        await self.store.close()

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for topic in delta.deleted_topics.values():
            self._deleted.deleted(topic.id)
            self.counts.pop(topic.name, None)
        if delta.deleted_topics or delta.changed_partitions or delta.changed_configs:
            self._woken.set()

    def start_read(self, work: Coroutine[Any, Any, TierRead]) -> asyncio.Task[TierRead]:
        return self._reading.start(work, "read from the remote tier")

    def led(self) -> Iterator[tuple[Partition, RemoteLog]]:
        """Partitions of this broker that use the tier and are led here, with what is known of them there."""
        for key in self._tended:
            partition = self._node.replicas.by_id.get(key)
            if partition is not None and partition.is_leader:
                yield partition, self.metadata.logs.get(key) or RemoteLog()

    # -- tending

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            wait = await self._look()
            self.rounds += 1
            try:
                # not wait_for, which in Python 3.11 forgets that it was cancelled if both happen at once
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(_SOON_S)  # changes come in numbers

    async def _keep_pace(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._tended:
                await self._pace.look()

    async def _look(self) -> float:
        """Starts what is due; gives the seconds until the next look."""
        node, metadata = self._node, self.metadata
        wait = node.config.get_int("remote.log.manager.task.interval.ms") / 1000
        partitions = await self._partitions()
        topic = node.image.topic(REMOTE_METADATA_TOPIC)
        for number, image in topic.partitions.items() if topic is not None else ():
            if image.leader == node.config.node_id:
                metadata.follow_number(number)
        if not metadata.follow(partitions):
            return min(wait, _SOON_S)
        for key in [key for key in self._tended if key not in partitions]:
            del self._tended[key]
        now = node.env.loop.time()
        for key, partition in partitions.items():
            if not metadata.knows(key):
                wait = min(wait, _SOON_S)
                continue
            tended = self._tended.setdefault(key, _Tended())
            if not partition.is_leader:
                self._follow(key, partition)
                continue
            wait = min(wait, self._lead(tended, partition, now))
        for key in self._deleted.due() if topic is not None else ():
            cleared = self._cleared.setdefault(key, _Job())
            if not cleared.is_busy and cleared.due <= now:
                cleared.task = self._tasks.start(self._clear(cleared, key), "tier of a deleted topic")
        return wait

    def _lead(self, tended: _Tended, partition: Partition, now: float) -> float:
        """Starts what is due of one partition; gives the seconds until something is."""
        copying, expiring, config, wait = tended.copying, tended.expiring, partition.log.config, inf
        is_on = config.remote_storage_enable
        state = (partition.leader_epoch, is_on, config.copies_to_tier)
        for job, work, may_begin in (
            (copying, self._copy, is_on and not tended.is_being_emptied),
            (expiring, self._expire, is_on or not copying.is_busy),
        ):
            if job.is_busy or not may_begin:
                continue
            if job.begun_in != state:
                job.due, job.failures = now, 0
            if job.due <= now:
                job.begun_in = state
                job.task = self._tasks.start(work(tended, partition), f"tier of {partition.key}")
            else:
                wait = min(wait, max(job.due - now, 0.01))
        return wait

    async def _partitions(self) -> dict[LogKey, Partition]:
        found: dict[LogKey, Partition] = {}
        breath = Breath(self._node.env.clock)
        for partition in list(self._node.replicas.by_id.values()):
            config = partition.log.config
            if config.remote_storage_enable or config.remote_log_delete_on_disable:
                found[partition.topic_id, partition.key.partition] = partition
            await breath.take()
        return found

    def _follow(self, key: LogKey, partition: Partition) -> None:
        """A follower deletes from its disk, too, only what is in the tier."""
        remote, log = self.metadata.logs.get(key), partition.log
        if not log.config.remote_storage_enable:
            log.tiered_to = NO_OFFSET
        elif remote is not None:
            log.tiered_to = max(log.tiered_to, remote.copied_to(log.epochs, log.end_offset))

    def _work(self, tended: _Tended, partition: Partition) -> LeaderWork:
        counts, being_copied = self.counts[partition.key.topic], tended.being_copied
        quota, pace = self._copy_quota, self._pace
        return LeaderWork(self._node, partition, self.metadata, self.store, quota, pace, counts, being_copied)

    async def _copy(self, tended: _Tended, partition: Partition) -> None:
        work = self._work(tended, partition)
        async with self._told(tended.copying, f"{partition.key}: what is to be in the remote tier waits"):
            work.begin()
            if partition.log.config.copies_to_tier:
                async with self._copying:
                    await work.copy()
            else:
                work.note_copied()
        if not partition.log.config.remote_storage_enable:
            self._woken.set()  # it was waited for

    async def _expire(self, tended: _Tended, partition: Partition) -> None:
        work = self._work(tended, partition)
        async with self._told(tended.expiring, f"{partition.key}: what is to go from the remote tier waits"):
            async with self._expiring:
                if partition.log.config.remote_storage_enable:
                    await work.expire()
                elif not tended.copying.is_busy:
                    await self._empty(tended, work)

    async def _empty(self, tended: _Tended, work: LeaderWork) -> None:
        """To the end, also if it is turned on again meanwhile."""
        tended.is_being_emptied = True
        try:
            await work.delete_all()
        finally:
            tended.is_being_emptied = False
            self._woken.set()  # it may be waited for

    async def _clear(self, cleared: _Job, key: LogKey) -> None:
        what = f"partition {key[1]} of the deleted topic {key[0]} is still in the tier"
        async with self._told(cleared, what), self._expiring:
            await self._deleted.clear(key)

    @asynccontextmanager
    async def _told(self, job: _Job, what: str) -> AsyncIterator[None]:
        """Says what is not done yet, if work fails, and when it is due again."""
        loop = self._node.env.loop
        try:
            yield
        except LeadershipOver:
            _log.debug("%s, for another leader", what)
            self._woken.set()  # it may be this one again
        except (OttlaError, OSError) as error:
            job.failures += 1
            rest = self._backoff.seconds(job.failures, self._node.env.random)
            job.due = loop.time() + rest
            _log.warning("%s, tried again in %.1f s: %s", what, rest, error)
            self._woken.set()
            return
        job.failures = 0
        job.due = loop.time() + self._node.config.get_int("remote.log.manager.task.interval.ms") / 1000


class _Places:
    """How many may be at it at a time; the number may change while some are."""

    def __init__(self, name: str, node: Node) -> None:
        self._name = name
        self._node = node
        self._taken = 0
        self._free = asyncio.Condition()

    async def __aenter__(self) -> None:
        async with self._free:
            await self._free.wait_for(lambda: self._taken < self._node.config.get_int(self._name))
            self._taken += 1

    async def __aexit__(self, *_: object) -> None:
        async with self._free:
            self._taken -= 1
            self._free.notify_all()
