"""The part of one Fetch request that is read from the remote tier: all its partitions at once, for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ottla.log.reading import LogRead
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Fetched, Isolation, Partition

if TYPE_CHECKING:
    from ottla.broker.follower_watch import Key
    from ottla.broker.node import Node
    from ottla.broker.tier.reads import TierRead


class TierFetch:
    def __init__(self, node: Node, isolation: Isolation, done: Callable[[], None]) -> None:
        """`done` is called once, unless nothing had to be waited for: there is then something to say of all."""
        self._node = node
        self._isolation = isolation
        self._done = done
        self._reads: dict[Key, asyncio.Task[TierRead]] = {}
        self._moved: dict[Key, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    @property
    def is_waiting(self) -> bool:
        return not self._is_over and any(not task.done() for task in self._reads.values())

    def fetched(
        self, key: Key, partition: Partition, offset: int, known: Fetched, limit: int, *, at_least_one: bool
    ) -> Fetched:
        """What has come by now. What is under way from the store still comes when the time is over, so that who asks
        again finds it."""
        tier = self._node.tier
        if tier is None:
            return Fetched(ErrorCode.kafka_storage_error)
        task = self._reads.get(key)
        if task is None:
            work = tier.reads.read(partition, offset, max(limit, 0), self._isolation, at_least_one=at_least_one)
            task = self._reads[key] = tier.start_read(work)
            task.add_done_callback(partial(self._came, key))
            if self._timer is None and not self._is_over:
                wait_s = self._node.config.get_int("remote.fetch.max.wait.ms") / 1000
                self._timer = self._node.env.loop.call_later(wait_s, self._finish)
        if not task.done():
            return known._replace(aborted=[] if self._isolation is Isolation.READ_COMMITTED else None)
        if task.cancelled() or task.exception() is not None:
            return Fetched(ErrorCode.kafka_storage_error)
        read = task.result()
        if read.code is not ErrorCode.none:
            return Fetched(read.code)
        data = LogRead(read.data, 0, len(read.data)) if read.data is not None else None
        return known._replace(data=data, aborted=read.aborted)

    def offset_of(self, key: Key, offset: int) -> int:
        """Where to read for who wants an offset: further on if the tier has turned out to have nothing there."""
        return self._moved.get(key, offset)

    def _came(self, key: Key, task: asyncio.Task[TierRead]) -> None:
        if self._is_over:
            return
        if not task.cancelled() and task.exception() is None and (moved := task.result().goes_on_at) is not None:
            self._moved[key] = moved
        if not self.is_waiting:
            self._finish()

    def _finish(self) -> None:
        if self._is_over:
            return
        self._end()
        self._done()

    def leave(self) -> None:
        """Nobody waits for it any more, or needs what it has: megabytes, which are not left to a collector. Reads that
        are not done would pile up with those of who asks again."""
        self._end()
        for task in self._reads.values():
            task.cancel()
        self._reads.clear()

    def _end(self) -> None:
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
