"""Chooses which log is cleaned next, has it cleaned in a process beside the node, and puts the outcome in its place.

The node looks and swaps; the records are seen by the other process only. A cleaning is given up when its log is cut,
moved, deleted or fails: the process is ended, and what it has written so far is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.env.files import is_shortage
from ottla.env.ports import Env, WorkerDied
from ottla.env.timers import Timer, TimerWheel
from ottla.log.cleaning.contract import CleanedGroup, Contract, CorruptSegment, LastOfProducer, Limits, Outcome, Source
from ottla.log.cleaning.planning import Plan, must_roll, plan
from ottla.log.cleaning.starting import begin_cleaning, compile_kernels
from ottla.log.cleaning.state import CleanerState, Cleaning
from ottla.log.cleaning.swap import remove_cleaned, swap
from ottla.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.log.log_dir import LogDir
    from ottla.log.manager import LogManager

_log = logging.getLogger("ottla.log")
_LOGS_A_TURN: Final = 200


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """Those of the configs `log.cleaner.*` that are not a topic's."""

    enabled: bool
    threads: int
    dedupe_bytes: int
    load_factor: float
    io_bytes: int
    io_bytes_per_second: float
    backoff_ms: int

    @property
    def limits(self) -> Limits:
        """Of one of as many cleanings as may go on at once."""
        threads = max(self.threads, 1)
        return Limits(
            self.dedupe_bytes // threads,
            self.load_factor,
            self.io_bytes // threads // 2,
            self.io_bytes_per_second / threads,
        )


class LogCleaner:
    def __init__(
        self,
        env: Env,
        timers: TimerWheel,
        logs: LogManager,
        settings: Callable[[], CleanerSettings],
    ) -> None:
        self.state = CleanerState(env.clock)
        self._env = env
        self._timers = timers
        self._logs = logs
        self._settings = settings
        self._running: dict[PartitionLog, Cleaning] = {}
        self._held: dict[PartitionLog, int] = {}
        self._passed_over: set[PartitionLog] = set()  # in this look: what could not be cleaned is tried in the next
        self._anew: set[PartitionLog] = set()  # given up for new limits only: to be tried in this look
        self._timer: Timer | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_compiled = False
        self._stopped = False

    # -- when

    def start(self) -> None:
        self._rest()

    def wake(self) -> None:
        """Something has changed: looks now, and not only after log.cleaner.backoff.ms."""
        if self._stopped or self._looking is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._looking = asyncio.ensure_future(self._look())
        self._looking.add_done_callback(self._looked)

    def _rest(self) -> None:
        if not self._stopped:
            self._timer = self._timers.after(self._settings().backoff_ms, self.wake)

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the cleaner could not look at the logs: %r", error, exc_info=error)
        self._rest()

    async def stop(self) -> None:
        """Until nothing of a log is in anybody else's hands."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        for log in list(self._running):
            await self.give_up(log)

    # -- which

    async def _look(self) -> None:
        """Cleans what is due, the dirtiest first, until nothing is; several at a time if there may be several."""
        if not self._settings().enabled:
            return
        self._passed_over.clear()
        while not self._stopped:
            chosen = await self._filthiest()
            settings = self._settings()
            if chosen is not None and len(self._running) < max(settings.threads, 1):
                self._begin(*chosen, settings)
            elif self._running:
                await asyncio.wait({running.task for running in self._running.values()}, return_when="FIRST_COMPLETED")
            elif chosen is None:
                return

    async def _filthiest(self) -> tuple[LogDir, PartitionLog, Plan] | None:
        chosen: tuple[LogDir, PartitionLog, Plan] | None = None
        best = dirtiest = 0.0
        overdue = number = 0
        now_ms = self._env.clock.now_ms()
        for log_dir in list(self._logs.dirs):
            for log in list(log_dir.logs.values()):
                number += 1
                if number % _LOGS_A_TURN == 0:
                    await asyncio.sleep(0)
                if not self._is_candidate(log) or (found := self._plan(log_dir, log, now_ms)) is None:
                    continue
                self.state.note_plan(log, found)
                dirtiest, overdue = max(dirtiest, found.ratio), max(overdue, found.overdue_ms)
                if found.is_due(log.config) and (chosen is None or found.ratio > best):
                    chosen, best = (log_dir, log, found), found.ratio
        self.state.looked(dirtiest, overdue)
        if chosen is not None and not self._is_candidate(chosen[1]):
            return await self._filthiest()  # it was closed while others were looked at
        return chosen

    def _is_candidate(self, log: PartitionLog) -> bool:
        return (
            log.config.compact
            and not log.closed
            and log.failed is None
            and log not in self._running
            and log not in self._held
            and log not in self._passed_over
            and not self.state.is_uncleanable(log)
        )

    def _plan(self, log_dir: LogDir, log: PartitionLog, now_ms: int) -> Plan | None:
        stable = self._logs.stable_offset(log)
        if stable is None:
            return None
        if must_roll(log, stable, now_ms):
            try:
                log.roll(now_ms)
            except OSError as error:
                _log.error("%s could not be rolled to be cleaned: %s", log.folder, error)
                return None
        try:
            found = plan(log, log_dir.cleaned_offsets.get(log.partition), stable, now_ms)
        except OSError as error:  # it asked for the time of a file
            _log.error("%s could not be looked at to be cleaned: %s", log.folder, error)
            return None
        if found.corrects_checkpoint:
            if not log.config.delete:
                _log.warning(
                    "%s was said to be clean up to an offset that it does not have; it is cleaned from %d on",
                    *(log.partition, found.first_dirty),
                )
            log_dir.note_cleaned(log.partition, found.first_dirty)
        return found if found.clean_bytes + found.dirty_bytes > 0 else None

    # -- what others do with a log meanwhile

    def is_cleaning(self, log: PartitionLog) -> bool:
        return log in self._running

    def configured(self, log: PartitionLog) -> None:
        """A log has new configs, by which what was clean enough is not any more, or nothing more is to be cleaned."""
        if log.config.compact:
            self.wake()
        elif (running := self._running.get(log)) is not None:
            running.give_up()

    def reconfigure(self) -> None:
        """The settings are new: what goes on under the old ones is given up and begun anew, as in Kafka."""
        for running in self._running.values():
            running.give_up()
            self._anew.add(running.log)
        self.wake()

    async def give_up(self, log: PartitionLog) -> None:
        """Ends the cleaning of a log; a swap that has begun is finished first."""
        running = self._running.get(log)
        if running is not None:
            running.give_up()
            await asyncio.wait([running.task])

    @asynccontextmanager
    async def held(self, log: PartitionLog) -> AsyncIterator[None]:
        """For somebody who needs the segments of a log to stay as they are."""
        self._held[log] = self._held.get(log, 0) + 1
        try:
            await self.give_up(log)
            yield
        finally:
            self._held[log] -= 1
            if not self._held[log]:
                del self._held[log]

    # -- one log

    def _begin(self, log_dir: LogDir, log: PartitionLog, found: Plan, settings: CleanerSettings) -> None:
        cleaning = Cleaning(log, found)
        cleaning.task = asyncio.ensure_future(self._clean(log_dir, cleaning, settings))
        self._running[log] = cleaning
        log.on_closed = cleaning.give_up  # at once: another topic's files may be under the same names in a moment
        cleaning.task.add_done_callback(lambda _: self._running.pop(log, None))

    async def _clean(self, log_dir: LogDir, cleaning: Cleaning, settings: CleanerSettings) -> None:
        log, found = cleaning.log, cleaning.plan
        try:
            outcome = await self._work(log_dir, cleaning, settings)
        except CorruptSegment as error:
            _log.error(
                "%s is not cleaned any more: %s. Restore it from another replica, or delete the damaged segment.",
                *(log.partition, error),
            )
            self.state.mark_uncleanable(log, log_dir.path)
            outcome = None
        except WorkerDied as error:
            _log.error("%s could not be cleaned, and is tried again later: %s", log.partition, error)
            outcome = None
        except OSError as error:
            if not cleaning.given_up and not log.closed:
                _log.error("%s could not be cleaned: %s", log.folder, error)
                if not is_shortage(error):
                    log.fail(error)
            outcome = None
        except Exception as error:  # a defect: it must not stop the cleaning of others, nor be met for ever
            _log.error("%s is not cleaned any more: %r", log.partition, error, exc_info=error)
            self.state.mark_uncleanable(log, log_dir.path)
            outcome = None
        if outcome is not None and outcome.end_offset <= found.first_dirty:
            _log.error(
                "%s is not cleaned from offset %d on: the batch there has more keys than there is memory for. Make "
                "log.cleaner.dedupe.buffer.size larger.",
                *(log.partition, found.first_dirty),
            )
            outcome = None
        if outcome is not None and not log.closed and log.failed is None:
            self._anew.discard(log)
            log_dir.note_cleaned(log.partition, outcome.end_offset)
            self.state.cleaned(log, found, outcome)
            return
        if log in self._anew:
            self._anew.discard(log)
        else:
            self._passed_over.add(log)
        with suppress(OSError):
            remove_cleaned(self._env, log)

    async def _work(self, log_dir: LogDir, cleaning: Cleaning, settings: CleanerSettings) -> Outcome | None:
        """None if it was given up."""
        log, found = cleaning.log, cleaning.plan
        # From the first swap on offsets may be missing, whatever becomes of this cleaning or of the topic's policy.
        if not await log_dir.remember_compaction(log) or not await log.until_durable(found.bound):
            return None
        if cleaning.given_up:
            return None
        if not self._is_compiled:
            cleaning.work = self._env.executor.beside(compile_kernels, None, _ignore)
            if not await _ended(cleaning):
                return None
            self._is_compiled = True
        made: deque[CleanedGroup] = deque()
        news = asyncio.Event()

        def heard(group: Any) -> None:
            made.append(group)
            news.set()

        contract = self._contract(log, found, settings.limits)
        cleaning.work = self._env.executor.beside(begin_cleaning, contract, heard)
        cleaning.work.add_done_callback(lambda _: news.set())
        while True:
            await news.wait()
            news.clear()
            while made and not cleaning.is_over:
                paths = await swap(self._env, log, made.popleft())
                if paths is None:
                    cleaning.give_up()
                    return None
                self._logs.remove_files(paths, log.config.file_delete_delay_ms)
            if cleaning.is_over or (cleaning.work.done() and not made):
                break
        return cleaning.work.result() if await _ended(cleaning) else None

    def _contract(self, log: PartitionLog, found: Plan, limits: Limits) -> Contract:
        segments = [segment for segment in log.segments if segment.base_offset < found.bound]
        return Contract(
            folder=log.folder,
            sources=tuple(
                Source(
                    segment.base_offset,
                    segment.size,
                    segment.offset_index.entries.count * segment.offset_index.entries.entry_size,
                    segment.time_index.entries.count * segment.time_index.entries.entry_size,
                )
                for segment in segments
            ),
            first_dirty=found.first_dirty,
            bound=found.bound,
            aborted=tuple(log.aborted_between(segments[0].base_offset, found.bound)) if segments else (),
            producers=tuple(
                LastOfProducer(entry.producer_id, entry.epoch, entry.batches[-1].last_offset if entry.batches else -1)
                for entry in log.producers.entries.values()
            ),
            now_ms=self._env.clock.now_ms(),
            delete_retention_ms=log.config.delete_retention_ms,
            segment_bytes=log.config.segment_bytes,
            index_bytes=log.config.segment_index_bytes,
            index_interval=log.config.index_interval_bytes,
            limits=limits,
            secret=self._env.random.uuid().bytes,
        )


async def _ended(cleaning: Cleaning) -> bool:
    """Waits for work in another process; False if it was ended before its time."""
    assert cleaning.work is not None
    await asyncio.wait([cleaning.work])
    if cleaning.work.cancelled() or cleaning.given_up:
        return False
    cleaning.work.result()
    return True


def _ignore(_: object) -> None:
    pass
