"""All logs of a node: opened together, tended in the background, stopped together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from ottla.env.ports import Env
from ottla.env.timers import TimerWheel
from ottla.log.log_dir import KnownTopic, LogDir
from ottla.log.partition_log import PartitionLog
from ottla.log.retention import delete_given_up, give_up_old_segments
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition

_log = logging.getLogger("ottla.log")
_LOGS_A_TURN: Final = 200  # how many logs are tended before others get the loop again


@dataclass(frozen=True, slots=True)
class TendingIntervals:
    retention_check_ms: int
    checkpoint_ms: int
    start_offset_checkpoint_ms: int
    high_watermark_checkpoint_ms: int
    producer_expiration_check_ms: int
    producer_expiration_ms: int
    initial_delay_ms: int = 30_000


class LogManager:
    def __init__(
        self, env: Env, timers: TimerWheel, dirs: list[LogDir], intervals: TendingIntervals,
        high_watermark: Callable[[TopicPartition], int | None],
    ) -> None:  # fmt: skip
        self.dirs = dirs
        self._env = env
        self._timers = timers
        self._intervals = intervals
        self._high_watermark = high_watermark
        self._stopped = False

    def load(self, known: KnownTopic) -> None:
        for log_dir in self.dirs:
            for folder in log_dir.load(known):
                self._remove_later([], folder, 0)
            for log in log_dir.logs.values():
                log.use_timers(self._timers)

    def start(self) -> None:
        """Begins the periodic work."""
        every = self._intervals
        self._repeat(
            every.retention_check_ms, self.enforce_retention, min(every.initial_delay_ms, every.retention_check_ms)
        )
        self._repeat(min(every.checkpoint_ms, every.start_offset_checkpoint_ms), self.checkpoint)
        self._repeat(every.high_watermark_checkpoint_ms, self._checkpoint_high_watermarks)
        self._repeat(every.producer_expiration_check_ms, self._expire_producers)

    def _repeat(self, interval_ms: int, work: Callable[[], object], first_ms: int | None = None) -> None:
        def again() -> None:
            if not self._stopped:
                result = work()
                if asyncio.iscoroutine(result):
                    asyncio.ensure_future(result).add_done_callback(lambda _: self._repeat(interval_ms, work))
                else:
                    self._repeat(interval_ms, work)

        self._timers.after(interval_ms if first_ms is None else first_ms, again)

    # -- partitions

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        for log_dir in self.dirs:
            if (log := log_dir.logs.get(partition)) is not None:
                return log
        return None

    def get_or_create(self, partition: TopicPartition, topic_id: UUID, config: LogConfig) -> PartitionLog:
        log = self.get(partition)
        if log is not None and log.topic_id == topic_id:
            return log
        if log is not None:  # a topic of the same name that was deleted while this node did not look
            self.delete(partition)
        emptiest = min(self.dirs, key=lambda log_dir: len(log_dir.logs))
        log = emptiest.create(partition, topic_id, config)
        log.use_timers(self._timers)
        return log

    def delete(self, partition: TopicPartition) -> None:
        for log_dir in self.dirs:
            if (log := log_dir.logs.get(partition)) is not None:
                self._remove_later([], log_dir.delete(partition), log.config.file_delete_delay_ms)

    def _remove_later(self, paths: list[str], folder: str | None, delay_ms: int) -> None:
        def remove() -> None:
            for path in paths:
                try:
                    self._env.disk.remove(path)
                except OSError as error:
                    _log.warning("%s could not be removed, the next start will try again: %s", path, error)
            if folder is not None:
                self._env.disk.remove_tree(folder)

        self._timers.after(delay_ms, lambda: self._env.executor.blocking(remove))

    # -- tending

    def expire_producers_after(self, milliseconds: int) -> None:
        self._intervals = replace(self._intervals, producer_expiration_ms=milliseconds)

    def all_logs(self) -> list[PartitionLog]:
        return [log for log_dir in self.dirs for log in log_dir.logs.values()]

    async def enforce_retention(self) -> None:
        for log_dir in self.dirs:
            given_up = []
            for number, log in enumerate(list(log_dir.logs.values())):
                if self._give_up_old_segments(log):
                    given_up.append(log)
                if number % _LOGS_A_TURN == _LOGS_A_TURN - 1:
                    await asyncio.sleep(0)
            if given_up and await log_dir.make_start_offsets_durable():
                for log in given_up:
                    if await log.until_durable(log.start_offset):
                        self._delete_given_up(log)

    def _give_up_old_segments(self, log: PartitionLog) -> bool:
        high_watermark = self._high_watermark(log.partition)
        # One that was closed while others were looked at has perhaps a namesake in its folder by now.
        if high_watermark is None or log.failed is not None or log.closed:
            return False
        try:
            return give_up_old_segments(log, high_watermark, self._env.clock.now_ms())
        except OSError as error:
            _log.error("old segments of %s could not be given up: %s", log.folder, error)
            return False

    def _delete_given_up(self, log: PartitionLog) -> None:
        if log.closed or log.failed is not None:
            return
        try:
            paths = delete_given_up(log)
        except OSError as error:
            _log.error("old segments of %s could not be deleted: %s", log.folder, error)
            return
        _log.info("%s now starts at offset %d (retention)", log.partition, log.start_offset)
        self._remove_later(paths, None, log.config.file_delete_delay_ms)

    def checkpoint(self) -> None:
        for log_dir in self.dirs:
            log_dir.checkpoint()

    def _high_watermarks_of(self, log_dir: LogDir) -> dict[TopicPartition, int]:
        known = {partition: self._high_watermark(partition) for partition in log_dir.logs}
        return {partition: offset for partition, offset in known.items() if offset is not None}

    def _checkpoint_high_watermarks(self) -> None:
        for log_dir in self.dirs:
            log_dir.checkpoint_high_watermarks(self._high_watermarks_of(log_dir))

    async def _expire_producers(self) -> None:
        for number, log in enumerate(self.all_logs()):
            log.producers.expire(self._env.clock.now_ms(), self._intervals.producer_expiration_ms)
            if number % _LOGS_A_TURN == _LOGS_A_TURN - 1:
                await asyncio.sleep(0)

    async def stop(self, broker_epoch: int) -> None:
        """After this the folders say that they were left in order. Nothing may be appended any more."""
        self._stopped = True
        for log_dir in self.dirs:
            await log_dir.settle()
            await log_dir.stop(self._high_watermarks_of(log_dir), broker_epoch)
