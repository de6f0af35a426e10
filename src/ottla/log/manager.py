"""All logs of a node: opened together, tended in the background, stopped together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from errno import ENODEV
from typing import Final
from uuid import UUID

from ottla.env.files import is_shortage
from ottla.env.ports import Env
from ottla.env.timers import TimerWheel
from ottla.log.cleaning.cleaner import LogCleaner
from ottla.log.log_dir import KnownTopic, LogDir
from ottla.log.partition_log import PartitionLog
from ottla.log.retention import (
    deletable_segments,
    delete_given_up,
    delete_oldest,
    give_up_old_segments,
    is_at_rest,
)
from ottla.log.truncation import Before, truncate_fully_and_start_at, truncate_to
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition

_log = logging.getLogger("ottla.log")
_MOST_PREFERRED: Final = 10_000  # that nobody has made yet: a client may ask for any number
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
        offline: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """`offline` are the log dirs that could not be opened."""
        self.dirs = dirs
        self.offline: dict[str, None] = dict.fromkeys(offline)
        self.have_high_watermarks_moved: Callable[[], bool] = lambda: True  # since this was last asked
        self._preferred: dict[TopicPartition, LogDir] = {}
        self.on_dir_failed: Callable[[LogDir], None] = lambda _: None
        self._env = env
        self._timers = timers
        self._intervals = intervals
        self._high_watermark = high_watermark
        self._stopped = False
        self.cleaner: LogCleaner | None = None
        self._due: dict[PartitionLog, None] = {}  # to be looked at for old segments
        self._enforcing: asyncio.Task[None] | None = None
        for log_dir in dirs:
            log_dir.on_failed = self._dir_failed

    def folders(self) -> dict[UUID, frozenset[str]]:
        """What lies in the dirs, by their ids."""
        found: dict[UUID, frozenset[str]] = {}
        for log_dir in list(self.dirs):
            try:
                found[log_dir.id] = frozenset(self._env.disk.list_folders(log_dir.path))
            except OSError as error:
                log_dir.fail(error)
        return found

    def load(self, known: KnownTopic) -> None:
        """A dir that cannot be read to its end is taken offline, and the others go on."""
        for log_dir in list(self.dirs):
            try:
                to_delete = log_dir.load(known)
            except OSError as error:
                log_dir.fail(error)
                continue
            for folder in to_delete:
                self._remove_later([], folder, 0)
            for log in log_dir.logs.values():
                log.use_timers(self._timers)

    def _dir_failed(self, log_dir: LogDir) -> None:
        self.dirs.remove(log_dir)
        self.offline[log_dir.path] = None
        self.on_dir_failed(log_dir)

    def start(self) -> None:
        """Begins the periodic work."""
        every = self._intervals
        self._repeat(
            every.retention_check_ms, self.enforce_retention, min(every.initial_delay_ms, every.retention_check_ms)
        )
        self._repeat(min(every.checkpoint_ms, every.start_offset_checkpoint_ms), self.checkpoint)
        self._repeat(every.high_watermark_checkpoint_ms, self._checkpoint_high_watermarks)
        self._repeat(every.producer_expiration_check_ms, self._expire_producers)
        if self.cleaner is not None:
            self.cleaner.start()

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

    def dir_of(self, partition: TopicPartition) -> LogDir | None:
        return next((log_dir for log_dir in self.dirs if partition in log_dir.logs), None)

    def get(self, partition: TopicPartition) -> PartitionLog | None:
        log_dir = self.dir_of(partition)
        return log_dir.logs[partition] if log_dir is not None else None

    def get_or_create(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig, directory: UUID | None = None
    ) -> PartitionLog:
        """A new one goes to the directory that is named, if that is here, else to the one with the fewest partitions.

        To one that is cordoned only if there is no other. A dir that cannot take it has failed, and the next one is
        tried; OSError if none is left, or if it is not the disk that is short of something.
        """
        log = self.get(partition)
        if log is not None and log.topic_id == topic_id:
            return log
        if log is not None:  # a topic of the same name that was deleted while this node did not look
            self.delete(partition)
        preferred = self._preferred.pop(partition, None)
        named = [log_dir for log_dir in self.dirs if log_dir is preferred] if preferred is not None else []
        named = named or [log_dir for log_dir in self.dirs if log_dir.id == directory]
        for log_dir in named or sorted(self.dirs, key=lambda log_dir: (log_dir.is_cordoned, len(log_dir.logs))):
            try:
                log = log_dir.create(partition, topic_id, config)
            except OSError as error:
                if is_shortage(error):
                    raise
                log_dir.fail(error)
                continue
            log.use_timers(self._timers)
            return log
        raise OSError(ENODEV, f"no log dir can take {partition}")

    def prefer(self, partition: TopicPartition, log_dir: LogDir) -> None:
        """Where a partition that is not there yet shall go."""
        if len(self._preferred) < _MOST_PREFERRED:
            self._preferred[partition] = log_dir

    def delete(self, partition: TopicPartition) -> None:
        log_dir = self.dir_of(partition)
        if log_dir is None:
            return
        delay_ms = log_dir.logs[partition].config.file_delete_delay_ms
        try:
            folder = log_dir.delete(partition)
        except OSError as error:
            log_dir.fail(error)
            raise
        self._remove_later([], folder, delay_ms)

    # -- cutting, as followers must

    async def cut(
        self,
        log: PartitionLog,
        offset: int,
        is_wanted: Callable[[], bool],
        *,
        fully: bool = False,
        before: Before | None = None,
    ) -> bool:
        """Cuts a log, and is done when that is durable, so that it may be appended to; False if it cannot be.

        In three steps, so that a loss of power leaves no gap and mixes no histories: the checkpoints stop telling of
        what goes, it goes, and that becomes durable. Before it goes, `is_wanted` is asked whether it still shall.
        `fully` drops everything, and the log goes on at the offset, wherever it was; `before` is then what it knows of
        a part that is in the remote tier.
        """
        async with self.uncleaned(log):
            return await self._cut(log, offset, is_wanted, fully, before)

    async def _cut(
        self, log: PartitionLog, offset: int, is_wanted: Callable[[], bool], fully: bool, before: Before | None
    ) -> bool:
        log_dir = self.dir_of(log.partition)
        if log_dir is None:
            return False
        log.doubt_from(0 if fully else offset)
        if log_dir.cleaned_offsets.get(log.partition, 0) > offset:
            log_dir.note_cleaned(log.partition, offset)
        shall_be_cut = False
        try:
            shall_be_cut = await log_dir.checkpoint_durably() and is_wanted()
        finally:
            if not shall_be_cut:
                log.doubt_from(None)
        if not shall_be_cut:
            return False
        try:
            if fully:
                paths = truncate_fully_and_start_at(self._env, log, offset, before)
            else:
                paths = truncate_to(self._env, log, offset)
        except OSError:
            return False
        if paths:
            self._remove_later(paths, None, log.config.file_delete_delay_ms)
        if (cleaned := log_dir.cleaned_offsets.get(log.partition)) is not None and cleaned > log.end_offset:
            log_dir.note_cleaned(log.partition, log.end_offset)
        return await log_dir.checkpoint_durably() and await log.until_durable(log.flushed_offset)

    @asynccontextmanager
    async def uncleaned(self, log: PartitionLog) -> AsyncIterator[None]:
        """For somebody who needs the segments of a log to stay as they are; a cleaning under way is given up."""
        async with nullcontext() if self.cleaner is None else self.cleaner.held(log):
            yield

    def make_cut_durable_now(self, log: PartitionLog) -> None:
        """Blocking: for one who must lead while the above is under way."""
        log_dir = self.dir_of(log.partition)
        if log_dir is not None:
            log_dir.make_cut_durable_now(log)

    def remove_folder(self, folder: str, delay_ms: int) -> None:
        self._remove_later([], folder, delay_ms)

    def remove_files(self, paths: list[str], delay_ms: int) -> None:
        self._remove_later(paths, None, delay_ms)

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

    def stable_offset(self, log: PartitionLog) -> int | None:
        """Below it everything is committed, and no transaction is open; None if that is not known."""
        high_watermark = self._high_watermark(log.partition)
        unstable = log.producers.first_unstable_offset()
        return high_watermark if high_watermark is None or unstable is None else min(high_watermark, unstable)

    def all_logs(self) -> list[PartitionLog]:
        return [log for log_dir in self.dirs for log in log_dir.logs.values()]

    def configured(self, log: PartitionLog) -> None:
        """A log has new configs, by which old segments may be too old, or what was clean enough is not any more."""
        if not self._stopped and not is_at_rest(log, self._env.clock.now_ms()):
            self._due[log] = None
            if self._enforcing is None:
                self._enforcing = asyncio.ensure_future(self._enforce_on_changed())
                self._enforcing.add_done_callback(self._enforced)
            if self.cleaner is not None:
                self.cleaner.configured(log)

    async def _enforce_on_changed(self) -> None:
        while self._due:
            await asyncio.sleep(0)  # all partitions of a topic get their configs at once
            due, self._due = self._due, {}
            for log_dir in list(self.dirs):
                await self._enforce(log_dir, [log for log in due if log_dir.logs.get(log.partition) is log])

    def _enforced(self, task: asyncio.Task[None]) -> None:
        self._enforcing = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("new configs could not be applied to old segments: %r", error, exc_info=error)

    async def enforce_retention(self) -> None:
        for log_dir in list(self.dirs):
            await self._enforce(log_dir, list(log_dir.logs.values()))

    async def _enforce(self, log_dir: LogDir, logs: list[PartitionLog]) -> None:
        given_up = []
        now_ms = self._env.clock.now_ms()
        for number, log in enumerate(logs):
            if not is_at_rest(log, now_ms) and self._give_up_old_segments(log):
                given_up.append(log)
            if number % _LOGS_A_TURN == _LOGS_A_TURN - 1:
                await asyncio.sleep(0)
        if given_up and await log_dir.make_start_offsets_durable():
            for log in given_up:
                if log.config.copies_to_tier:
                    await self._delete_tiered(log)
                elif await log.until_durable(log.start_offset):
                    self._delete_given_up(log)

    def _give_up_old_segments(self, log: PartitionLog) -> bool:
        high_watermark = self._high_watermark(log.partition)
        # One that was closed while others were looked at has perhaps a namesake in its folder by now.
        if high_watermark is None or log.failed is not None or log.closed or self._is_being_cleaned(log):
            return False
        try:
            return give_up_old_segments(log, high_watermark, self._env.clock.now_ms())
        except OSError as error:
            _log.error("old segments of %s could not be given up: %s", log.folder, error)
            log.fail(error)
            return False

    def _is_being_cleaned(self, log: PartitionLog) -> bool:
        """As in Kafka, what is too old then waits for the next look: the cleaner has its hands on the segments."""
        return self.cleaner is not None and self.cleaner.is_cleaning(log)

    def _delete_given_up(self, log: PartitionLog) -> None:
        if log.closed or log.failed is not None or self._is_being_cleaned(log):
            return
        try:
            paths = delete_given_up(log)
        except OSError as error:
            _log.error("old segments of %s could not be deleted: %s", log.folder, error)
            log.fail(error)
            return
        _log.info("%s now starts at offset %d (retention)", log.partition, log.start_offset)
        self._remove_later(paths, None, log.config.file_delete_delay_ms)

    async def _delete_tiered(self, log: PartitionLog) -> None:
        """Segments that are in the remote tier, from the oldest on."""
        while self._has_old_segments(log) and await log.until_durable(log.segments[1].base_offset):
            if not self._has_old_segments(log):
                return
            try:
                paths = delete_oldest(log)
            except OSError as error:
                _log.error("old segments of %s could not be deleted: %s", log.folder, error)
                log.fail(error)
                return
            _log.info("%s is on this disk from offset %d on (local retention)", log.partition, log.local_start_offset)
            self._remove_later(paths, None, log.config.file_delete_delay_ms)

    def _has_old_segments(self, log: PartitionLog) -> bool:
        high_watermark = self._high_watermark(log.partition)
        if high_watermark is None or log.closed or log.failed is not None or len(log.segments) < 2:
            return False
        return log.config.copies_to_tier and deletable_segments(log, high_watermark, self._env.clock.now_ms()) > 0

    def checkpoint(self) -> None:
        for log_dir in self.dirs:
            log_dir.checkpoint()

    def _high_watermarks_of(self, log_dir: LogDir) -> dict[TopicPartition, int]:
        known = {partition: self._high_watermark(partition) for partition in log_dir.logs}
        return {partition: offset for partition, offset in known.items() if offset is not None}

    def _checkpoint_high_watermarks(self) -> None:
        if not self.have_high_watermarks_moved():
            return
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
        if self.cleaner is not None:
            await self.cleaner.stop()
        if self._enforcing is not None:
            await asyncio.wait([self._enforcing])
        for log_dir in list(self.dirs):
            await log_dir.settle()
            await log_dir.stop(self._high_watermarks_of(log_dir), broker_epoch)
