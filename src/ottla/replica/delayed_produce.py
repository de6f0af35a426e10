"""A produce request that waits until its batches are acknowledged as its acks demand, or its time-out is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ottla.env.timers import Timer, TimerWheel
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Appended, Partition
from ottla.replica.progress import Progress, Waiter

_NOT_YET: Final = Appended(ErrorCode.none)

Row = tuple[Partition | None, Appended | asyncio.Future[Appended]]


class DelayedProduce:
    """`done` is told the results in the order of the rows, once."""

    __slots__ = ("_acks", "_done", "_missing", "_results", "_rows", "_timeout_ms", "_timer", "_timers", "_waiting")

    def __init__(
        self,
        timers: TimerWheel,
        acks: int,
        timeout_ms: int,
        rows: Sequence[Row],
        done: Callable[[list[Appended]], None],
    ) -> None:
        self._timers = timers
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._rows = rows
        self._done: Callable[[list[Appended]], None] | None = done
        self._results: list[Appended | None] = [None] * len(rows)
        self._missing = len(rows)
        self._waiting: list[_Awaited] = []
        self._timer: Timer | None = None

    def start(self) -> None:
        if self._acks == -1:  # as in Kafka: others wait for nothing but their append
            self._timer = self._timers.after(self._timeout_ms, self._expired)
        for number, (partition, result) in enumerate(self._rows):
            if isinstance(result, Appended):
                self._appended(number, partition, result)
            else:
                self._wait_for_check(number, partition, result)

    def _wait_for_check(self, number: int, partition: Partition | None, result: asyncio.Future[Appended]) -> None:
        result.add_done_callback(lambda checked: self._appended(number, partition, checked.result()))

    def _appended(self, number: int, partition: Partition | None, result: Appended) -> None:
        if self._done is None:
            return
        if result.code is not ErrorCode.none or partition is None or self._acks == 0:
            self.acknowledged(number, result)
            return
        awaited = _Awaited(self, number, partition, result, self._acks == -1)
        self._waiting.append(awaited)
        awaited.start()

    def acknowledged(self, number: int, result: Appended) -> None:
        if self._done is None or self._results[number] is not None:
            return
        self._results[number] = result
        self._missing -= 1
        if not self._missing:
            self._finish()

    def _expired(self) -> None:
        appended = {awaited.number: awaited.result for awaited in self._waiting}
        self._results = [
            appended.get(number, _NOT_YET)._replace(code=ErrorCode.request_timed_out) if result is None else result
            for number, result in enumerate(self._results)
        ]
        self._finish()

    def _finish(self) -> None:
        done, results = self._done, self._results
        self.cancel()
        if done is not None:
            done([result for result in results if result is not None])

    def cancel(self) -> None:
        self._done = None
        if self._timer is not None:
            self._timer.cancel()
        for awaited in self._waiting:
            awaited.cancel()
        self._waiting.clear()


class _Awaited:
    """One batch that is in the log, and not yet where its acks want it. Whatever becomes of it, it is told where."""

    __slots__ = ("_delayed", "_is_for_all", "_partition", "_waiter", "number", "result")

    def __init__(
        self, delayed: DelayedProduce, number: int, partition: Partition, result: Appended, is_for_all: bool
    ) -> None:
        self._delayed = delayed
        self.number = number
        self.result = result
        self._partition = partition
        self._is_for_all = is_for_all
        self._waiter: Waiter | None = None

    def start(self) -> None:
        if self._partition.is_leader:
            self._waiter = self._stage.when(self.result.next_offset, self._reached)
        else:  # since it was appended: those who waited then were told, and nobody will be any more
            self._reached()

    def cancel(self) -> None:
        if self._waiter is not None:
            self._waiter.cancel()

    @property
    def _stage(self) -> Progress:
        return self._partition.committed if self._is_for_all else self._partition.appended

    def _reached(self) -> None:
        partition, result = self._partition, self.result
        code = ErrorCode.none
        if not partition.is_leader:
            code = ErrorCode.not_leader_or_follower
        elif self._stage.value < result.next_offset:
            code = ErrorCode.kafka_storage_error
        elif self._is_for_all and not partition.has_enough_replicas:
            code = ErrorCode.not_enough_replicas_after_append
        self._delayed.acknowledged(self.number, result if code is ErrorCode.none else result._replace(code=code))
