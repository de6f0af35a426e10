"""A produce request that waits until its batches are acknowledged as its acks demand, or its time-out is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from ottla.env.timers import Timer, TimerWheel
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Appended, Partition
from ottla.replica.progress import Waiter

Row = tuple[Partition | None, Appended | asyncio.Future[Appended]]


class DelayedProduce:
    def __init__(
        self,
        timers: TimerWheel,
        acks: int,
        timeout_ms: int,
        rows: list[list[Row]],
        done: Callable[[list[list[Appended]]], None],
    ) -> None:
        self._timers = timers
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._rows = rows
        self._done = done
        self._results: list[list[Appended | None]] = [[None] * len(topic) for topic in rows]
        self._missing = sum(map(len, rows))
        self._waiters: list[Waiter] = []
        self._timer: Timer | None = None
        self._finished = False

    def start(self) -> None:
        if self._acks == -1:  # as in Kafka: others wait for nothing but their append
            self._timer = self._timers.after(self._timeout_ms, self._expired)
        for t, topic in enumerate(self._rows):
            for r, (partition, result) in enumerate(topic):
                if isinstance(result, asyncio.Future):
                    result.add_done_callback(partial(self._checked, t, r, partition))
                else:
                    self._appended(t, r, partition, result)

    def _checked(self, t: int, r: int, partition: Partition | None, future: asyncio.Future[Appended]) -> None:
        self._appended(t, r, partition, future.result())

    def _appended(self, t: int, r: int, partition: Partition | None, result: Appended) -> None:
        if self._finished:
            return
        if result.code is not ErrorCode.none or partition is None or self._acks == 0:
            self._acknowledged(t, r, result)
            return
        stage = partition.committed if self._acks == -1 else partition.appended

        def reached() -> None:
            if not partition.is_leader:
                self._acknowledged(t, r, Appended(ErrorCode.not_leader_or_follower))
            elif stage.value < result.next_offset:
                self._acknowledged(t, r, Appended(ErrorCode.kafka_storage_error))
            elif self._acks == -1 and not partition.has_enough_replicas:
                self._acknowledged(t, r, Appended(ErrorCode.not_enough_replicas_after_append))
            else:
                self._acknowledged(t, r, result)

        self._waiters.append(stage.when(result.next_offset, reached))

    def _acknowledged(self, t: int, r: int, result: Appended) -> None:
        if self._finished or self._results[t][r] is not None:
            return
        self._results[t][r] = result
        self._missing -= 1
        if not self._missing:
            self._finish()

    def _expired(self) -> None:
        for topic in self._results:
            for number, result in enumerate(topic):
                if result is None:
                    topic[number] = Appended(ErrorCode.request_timed_out)
        self._finish()

    def _finish(self) -> None:
        self.cancel()
        self._done([[result for result in topic if result is not None] for topic in self._results])

    def cancel(self) -> None:
        self._finished = True
        if self._timer is not None:
            self._timer.cancel()
        for waiter in self._waiters:
            waiter.cancel()
