"""The log of one partition: a row of segments, appended to at the end, read anywhere, cut at the start.

Nothing here waits for a disk: appends go to the page cache, reads that are not in memory raise NotInMemory, and fsync
runs in the executor (`flush`). `end_offset` is what was appended, `flushed_offset` what would survive a loss of power.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from errno import EBADF, EIO
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.env.files import is_shortage, replace_file
from ottla.env.ports import Buffer, Env
from ottla.env.timers import Timer, TimerWheel
from ottla.log.checkpoints import write_epochs
from ottla.log.epochs import LeaderEpochs
from ottla.log.paths import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from ottla.log.producers import EndMarker, Producers, replace_if_other, write_snapshot
from ottla.log.reading import ReadableLog
from ottla.log.scan import ScannedBatch, end_marker
from ottla.log.segment import Segment, new_segment
from ottla.log.unsynced import Unsynced
from ottla.model.config.topic import LogConfig
from ottla.model.names import NO_OFFSET, TopicPartition
from ottla.record.batch import BatchHeader, new_head

if TYPE_CHECKING:
    from ottla.log.retention import Rest

_log = logging.getLogger("ottla.log")
_FLUSH_AGAIN_S: Final = 1.0
_FOREVER: Final = 0x7FFFFFFFFFFFFFFF


class PartitionLog(ReadableLog):
    def __init__(
        self,
        env: Env,
        folder: str,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        segments: list[Segment],
        producers: Producers,
        epochs: LeaderEpochs,
        *,
        start_offset: int,
        end_offset: int,
        flushed_offset: int,
        as_stopped: bool = False,
    ) -> None:
        super().__init__(config, segments, start_offset, end_offset, Unsynced(env.disk, folder, is_synced=as_stopped))
        self.folder = folder
        self.partition = partition
        self.topic_id = topic_id
        self.producers = producers
        self.epochs = epochs
        self.flushed_offset = flushed_offset
        self._stopped_at = end_offset if as_stopped else None  # where a stop left everything in order
        self.failed: OSError | None = None
        self.closed = False
        self.cuts = 0  # how often its end was cut off
        self.on_flushed: Callable[[int], None] = _nobody_listens
        self.rest: Rest | None = None  # what retention has found
        self.tiered_to = NO_OFFSET  # the last offset that is known to be in the remote tier
        self.on_failed: Callable[[], None] = _nobody_cares
        self.on_start_moved: Callable[[], None] = _nobody_cares
        self.on_closed: Callable[[], None] = _nobody_cares  # for whoever works with its files elsewhere
        self.on_error: Callable[[OSError], None] = _nobody_listens  # for the log dir, which fails as a whole
        self._env = env
        self._latest_epoch = epochs.latest
        self._epochs_to_store = False
        self._flush_messages = _flush_messages(config)
        self._flush_rules = _has_flush_rules(config)
        self._max_segment_ms = config.max_segment_ms
        self._flush_goal = flushed_offset
        self._due_flush = 0  # flush.messages says: nothing below is acknowledged before it is durable ...
        self._held_offset = 0  # ... from here on
        self._flushing: asyncio.Future[None] | None = None
        self._flush_limit: int | None = None  # what is to be cut off, or was since the flush under way began
        self._cut_is_due = False
        self._timers: TimerWheel | None = None
        self._flush_timer: Timer | None = None

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._flush_messages = _flush_messages(config)
        self._flush_rules = _has_flush_rules(config)
        self._max_segment_ms = config.max_segment_ms
        if self._flush_timer is not None:  # it counts by the old time
            self._flush_timer.cancel()
            self._flush_timer = None
        self._arm_flush_timer()

    # -- appending

    def append(self, batch: Buffer, header: BatchHeader, leader_epoch: int, max_timestamp: int, now_ms: int) -> int:
        """Appends a checked batch as the leader; gives its base offset. OSError leaves the log as it was."""
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        size = header.length + 12
        segment = self.segments[-1]
        if self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
            segment = self.roll(now_ms)
        if leader_epoch != self._latest_epoch:
            self.assign_epoch(leader_epoch, base_offset)
        if self._epochs_to_store:
            self.store_epochs()
        head = new_head(base_offset, header.length, leader_epoch)
        self._write(segment, (head, memoryview(batch)[16:]), size, last_offset, max_timestamp)
        if header.producer_id >= 0 and not header.is_control:
            self.producers.note(header, base_offset, max_timestamp)
        self.end_offset = self.producers.end_offset = last_offset + 1
        if self._flush_rules and not header.is_control:  # the end of a transaction is flushed with what is told of it
            self._flush_if_due(base_offset)
        return base_offset

    def append_as_is(self, records: Buffer, headers: Sequence[BatchHeader], now_ms: int) -> None:
        """Appends batches that have their offsets and epochs already (raft and replication), one after the other.

        As many as go into one segment are written at once; OSError leaves the log at the end of such a run.
        """
        view, position, run, size = memoryview(records), 0, 0, 0
        for number, header in enumerate(headers):
            must_roll = self._must_roll(
                self.segments[-1], size + header.size, header.last_offset, header.max_timestamp, now_ms
            )
            if must_roll:
                if size:
                    self._append_run(view[position : position + size], headers[run:number])
                    position, run, size = position + size, number, 0
                self.roll(now_ms, header.base_offset)
            size += header.size
        if size:
            self._append_run(view[position : position + size], headers[run:])

    def _append_run(self, run: memoryview, headers: Sequence[BatchHeader]) -> None:
        for number, header in enumerate(headers):
            if header.leader_epoch != self._latest_epoch:  # compaction may have taken the first records of an epoch
                self.assign_epoch(header.leader_epoch, headers[number - 1].next_offset if number else self.end_offset)
        if self._epochs_to_store:
            self.store_epochs()
        segment, first = self.segments[-1], headers[0]
        self._write(segment, (run,), first.size, first.last_offset, first.max_timestamp)
        try:
            for header in headers[1:]:
                segment.note(
                    segment.size,
                    header.size,
                    header.last_offset,
                    header.max_timestamp,
                    self.config.index_interval_bytes,
                )
            self._note_producers(run, headers)
        except OSError as error:  # of an index: the batches are there, and a restart will see them
            self.fail(error)
            raise
        self.end_offset = self.producers.end_offset = headers[-1].next_offset
        if self._flush_rules:
            self._flush_if_due(first.base_offset)

    def _note_producers(self, run: memoryview, headers: Sequence[BatchHeader]) -> None:
        position = 0
        for header in headers:
            if header.producer_id >= 0:
                if not header.is_control:
                    self.producers.note(header, header.base_offset, header.max_timestamp)
                else:
                    batch = ScannedBatch(position, header, run[position : position + header.size])
                    if (marker := end_marker(batch)) is not None:
                        self._note_end(header, marker, header.base_offset)
            position += header.size

    def note_transaction_end(self, header: BatchHeader, marker: EndMarker, offset: int) -> None:
        """The end marker at `offset` was appended: readers of committed data may go on."""
        self._note_end(header, marker, offset)
        if self._flush_rules:
            self._flush_if_due(offset)

    def _note_end(self, header: BatchHeader, marker: EndMarker, offset: int) -> None:
        aborted = self.producers.note_end(header, marker, offset)
        if aborted is not None:
            self.active.txn_index.append(aborted)
            self._unsynced.file_replaced(self.active.txn_index.path)

    def _write(
        self, segment: Segment, buffers: tuple[Buffer, ...], size: int, last_offset: int, max_timestamp: int
    ) -> None:
        if self.failed is not None:
            raise self.failed
        before = segment.size
        try:
            segment.append(buffers, size, last_offset, max_timestamp, self.config.index_interval_bytes)
        except OSError as error:
            segment.size = before
            try:
                segment.file_for().truncate(before)
            except OSError as second:  # what stays there is cut off by the next start
                self.fail(second if is_shortage(error) else error)
            else:
                self._refused(error)
            raise
        except BaseException as error:  # by a mistake of ours, after it was written or before: a restart will see
            self.fail(OSError(EIO, f"an append was cut off by {error!r}", segment.path))
            raise

    def _refused(self, error: OSError) -> None:
        """Everything is as it was before: whether the next append can succeed depends on what was wrong."""
        if is_shortage(error):
            _log.error(
                "%s cannot be appended to now: %s. Raise the limit of open files (ulimit -n).", self.folder, error
            )
        else:
            self.fail(error)

    def fail(self, error: OSError) -> None:
        """Nobody knows what is on disk now, so nothing more is appended before a restart has looked."""
        if self.failed is None:
            self.failed = error
            if not self.closed:  # else it has been deleted under the feet of whoever used it
                self.on_failed()
                self.on_error(error)

    def read_failed(self, error: OSError) -> None:
        """A disk that cannot be read has failed too; but not every error says something about the disk."""
        if not is_shortage(error) and error.errno != EBADF:
            self.fail(error)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """From here on this epoch. The file says so with the epoch's first batch: most elections see none for long."""
        if self.epochs.assign(epoch, start_offset):
            self._epochs_to_store = True
        self._latest_epoch = self.epochs.latest

    def forget_epochs_from(self, offset: int) -> None:
        if self.epochs.truncate_from_end(offset):
            self._latest_epoch = self.epochs.latest
            self._epochs_to_store = True

    def store_epochs(self) -> None:
        """What is in the remote tier is found by the epochs alone, and segments here do not tell of those."""
        path, data = f"{self.folder}/{LEADER_EPOCH_CHECKPOINT}", write_epochs(self.epochs.starts)
        try:
            self._replace(path, data, sync=self.config.remote_storage_enable)
        except OSError as error:
            if not self.closed:
                self._refused(error)
            raise
        self._epochs_to_store = False

    def _replace(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Small files change inline, since a folder may be renamed at any time; the next flush makes them durable."""
        self._check_open()
        replace_file(self._env.disk, path, data, sync=sync)
        self._unsynced.file_replaced(path)

    def _check_open(self) -> None:
        if self.closed:  # another topic may be in the folder of that name by now
            raise OSError(EBADF, "the log is closed", self.folder)

    def sync_with_next_flush(self, path: str) -> None:
        """A small file in the folder that somebody else has written."""
        self._unsynced.file_replaced(path)

    # -- rolling

    def _must_roll(self, segment: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        config = self.config
        if segment.size > config.segment_bytes - size:
            return segment.size > 0
        if segment.size > 0:
            if segment.first_timestamp is not None and segment.first_timestamp >= 0:
                waited = max_timestamp - segment.first_timestamp
            else:
                waited = now_ms - segment.created_ms
            if waited > self._max_segment_ms - segment.roll_jitter_ms:
                return True
        return segment.indexes_full or not segment.has_room_for(last_offset)

    def roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Starts a new segment, at the end unless an offset is given; the old one is flushed in the background."""
        old = self.segments[-1]
        if base_offset is None:
            base_offset = self.end_offset
        if old.base_offset == base_offset:
            return old  # there is nothing in it
        self._check_open()
        try:
            old.finish()
            segment = new_segment(self._env, self.folder, base_offset, self.config, now_ms)
            self._take_snapshot(base_offset)
        except OSError as error:
            if self._took_back(base_offset):
                self._refused(error)
            else:
                self.fail(error)  # going on in the old one would lead past the beginnings of the new one on disk
            raise
        self.segments.append(segment)
        self._bases.append(base_offset)
        self._unsynced.names_changed()
        self._unsynced.segment_rolled(old)
        self.flush(self.end_offset)
        return segment

    def _took_back(self, base_offset: int) -> bool:
        """Whether nothing is left of a segment that could not be begun."""
        stem = f"{self.folder}/{offset_name(base_offset)}"
        try:
            for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
                self._env.disk.remove(stem + suffix)
        except OSError:
            return False
        return True

    def keep_producers(self) -> None:
        """What is known of producers at the end of the log comes from elsewhere: no batch before it can tell."""
        self._take_snapshot(self.end_offset)

    def _take_snapshot(self, offset: int) -> None:
        path = f"{self.folder}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
        self._check_open()
        if replace_if_other(self._env.disk, path, write_snapshot(self.producers.entries.values())):
            self._unsynced.file_replaced(path)

    # -- flushing

    @property
    def committable_offset(self) -> int:
        """How far records may be shown and acknowledged: not beyond a flush that flush.messages demands."""
        if self.flushed_offset >= self._due_flush:
            return self.end_offset
        return max(self.flushed_offset, self._held_offset)

    def _flush_if_due(self, base_offset: int) -> None:
        if self.end_offset - max(self.flushed_offset, self._due_flush) >= self._flush_messages:
            if self.flushed_offset >= self._due_flush:
                self._held_offset = base_offset
            self._due_flush = self.end_offset
            self.flush()
        elif self._flush_timer is None:
            self._arm_flush_timer()

    def use_timers(self, timers: TimerWheel) -> None:
        """Whoever opens a log that shall obey flush.ms lends it the wheel."""
        self._timers = timers
        if self._flush_rules:  # what a crash left in the page cache is not durable yet, and must not be taken for it
            self._flush_if_due(self.flushed_offset)

    def _arm_flush_timer(self) -> None:
        if self.config.flush_ms < _FOREVER and self._timers is not None and self.end_offset > self.flushed_offset:
            self._flush_timer = self._timers.after(self.config.flush_ms, self._flush_by_time)

    def _flush_by_time(self) -> None:
        self._flush_timer = None
        self.flush()

    def flush(self, upto: int | None = None) -> None:
        """Makes what was appended below an offset durable, in the background; `on_flushed` says when."""
        self._flush_goal = max(self._flush_goal, self.end_offset if upto is None else upto)
        if self._flushing is None:
            self._start_flush()

    def _start_flush(self) -> None:
        goal = self._flush_goal
        if self.failed is not None or self.closed or (goal <= self.flushed_offset and not self._unsynced.pending):
            return
        try:
            job = self.flush_job(goal)
        except OSError as error:
            self.fail(error)
            return
        self._flushing = self._env.executor.blocking(job)
        self._flushing.add_done_callback(partial(self._flush_done, goal))

    def flush_job(self, goal: int) -> Callable[[], None]:
        """What blocks, for the executor or for a stop: everything below `goal` and the names of new files."""
        first = max(bisect_right(self._bases, self.flushed_offset) - 1, 0)
        last = bisect_right(self._bases, max(goal - 1, 0))
        segments = self.segments[first:last]
        for segment in segments:
            segment.write_index_tails()
        others = self._unsynced.job()

        def job() -> None:
            for segment in segments:
                segment.sync()
            others()

        return job

    def _flush_done(self, goal: int, future: asyncio.Future[None]) -> None:
        self._flushing = None
        error = future.exception()
        if self.closed:
            return  # deleted meanwhile, under the flush's feet
        if isinstance(error, OSError) and is_shortage(error) and error.filename is not None:  # it was not even opened
            _log.error("%s could not be synced and is tried again: %s", self.folder, error)
            self._env.loop.call_later(_FLUSH_AGAIN_S, self._start_flush)
            return
        if error is not None:
            # After a failed fsync nobody knows what is on disk: the kernel may have dropped the dirty pages.
            _log.error("%s could not be synced, nothing more is appended to it: %s", self.folder, error)
            self.fail(error if isinstance(error, OSError) else OSError(str(error)))
            return
        for segment in self._unsynced.forget():
            segment.release_indexes()
        if self._flush_limit is not None:
            goal = min(goal, self._flush_limit)
            if not self._cut_is_due:
                self._flush_limit = None
        self.flushed(goal)
        self._start_flush()

    def flushed(self, offset: int) -> None:
        if offset > self.flushed_offset:
            self.flushed_offset = offset
            self.on_flushed(offset)

    # -- cutting

    def advance_start(self, offset: int) -> None:
        """Records below the offset are no longer visible; whole segments below it go with the next retention check."""
        if offset > self.start_offset:
            self.start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self.store_epochs()
            self.on_start_moved()

    def take_first_segments(self, count: int) -> list[Segment]:
        """Removes the oldest segments from the row; the caller deletes their files."""
        taken = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self._unsynced.names_changed()
        if not self.config.copies_to_tier:
            self.advance_start(self._bases[0])
        return taken

    def take_snapshots_before(self, offset: int) -> list[str]:
        """Producer snapshots that nothing can need any more, renamed as segments are; gives the paths to remove."""
        marked = []
        for name in self._env.disk.list_dir(self.folder):
            if name.endswith(SNAPSHOT_SUFFIX) and int(name[: -len(SNAPSHOT_SUFFIX)]) < offset:
                path = f"{self.folder}/{name}"
                self._env.disk.rename(path, path + DELETED_SUFFIX)
                marked.append(path + DELETED_SUFFIX)
        return marked

    def take_last_segments(self, first: int) -> list[str]:
        """Removes segments from the end of the row, the last one first, so that a crash leaves no gap.

        Gives the paths to remove.
        """
        paths: list[str] = []
        while len(self.segments) > first:
            paths += self.segments[-1].mark_deleted()
            self.segments.pop()
            self._bases.pop()
        self._unsynced.names_changed()
        return paths

    def replace_segments(self, cleaned: Segment, count: int) -> list[Segment]:
        """A cleaned segment takes the place of those from its base offset on; gives them, their files are the caller's.

        Readers that have found their place in one of the old files go on there.
        """
        first = self._bases.index(cleaned.base_offset)
        old = self.segments[first : first + count]
        self.segments[first : first + count] = [cleaned]
        self._bases[first : first + count] = [cleaned.base_offset]
        self._hopeless.difference_update(segment.base_offset for segment in old)
        self._unsynced.names_changed()
        self.rest = None
        return old

    def take_snapshots_at(self, offsets: Sequence[int]) -> list[str]:
        """Producer snapshots at the start of segments that are no more; gives the paths to remove."""
        marked = []
        for offset in offsets:
            path = f"{self.folder}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"
            if self._env.disk.exists(path):
                self._env.disk.rename(path, path + DELETED_SUFFIX)
                marked.append(path + DELETED_SUFFIX)
        return marked

    def start_anew(self, segment: Segment) -> None:
        """Nothing is left but this segment, which is empty."""
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._unsynced.names_changed()
        self.start_offset = segment.base_offset

    def doubt_from(self, offset: int | None) -> None:
        """All from there on is to be cut off, and counts as not durable until then; None: after all not."""
        self._cut_is_due = offset is not None
        self._flush_limit = offset
        if offset is not None:
            self.flushed_offset = min(self.flushed_offset, offset)
        elif self.flushed_offset < self._due_flush:  # somebody waits for it
            self.flush()

    def cut_at(self, end_offset: int, producers: Producers) -> None:
        """The segments end there now, and what is known of producers does: all that tells of more is taken back."""
        self._unsynced.segment_rolled(self.active)  # its length must reach the disk, though nothing in it is new
        self.producers = producers
        self.end_offset = producers.end_offset = end_offset
        self.epochs.truncate_from_end(end_offset)
        self.epochs.truncate_from_start(self.start_offset)
        self._latest_epoch = self.epochs.latest
        self.tiered_to = min(self.tiered_to, end_offset - 1)  # what comes instead has still to be copied
        self.flushed_offset = min(self.flushed_offset, end_offset)
        self._flush_goal = min(self._flush_goal, end_offset)
        self._due_flush, self._held_offset = min(self._due_flush, end_offset), min(self._held_offset, end_offset)
        self.cuts += 1
        self._cut_is_due = False
        self._flush_limit = end_offset if self._flushing is not None else None
        self._stopped_at = self.rest = None
        self.store_epochs()

    def continue_from(self, old: PartitionLog, flushed_offset: int) -> None:
        """This is a copy of a log in another folder, and takes its place in the middle of its life."""
        self.producers = old.producers  # of which a snapshot does not tell everything
        self.epochs = old.epochs
        self._latest_epoch = old.epochs.latest
        self._epochs_to_store = True  # the copy has dropped those that have no batch yet
        self.flushed_offset = self._flush_goal = flushed_offset
        self._due_flush, self._held_offset = old._due_flush, old._held_offset
        self._stopped_at = None
        self.on_flushed, self.on_failed, self.on_start_moved = old.on_flushed, old.on_failed, old.on_start_moved
        if old._timers is not None:
            self.use_timers(old._timers)
        if self.flushed_offset < self._due_flush:  # somebody waits for it
            self.flush()

    def stop(self) -> None:
        """Blocking: everything durable, indexes complete, producer state written; nothing is appended after this."""
        # An epoch that has no batch is not stored: the next leader begins one of its own.
        if self._stopped_at == self.end_offset and not self._unsynced.pending:
            self.close()
            return
        self.active.finish()
        if self.end_offset > self.segments[0].base_offset or self.producers.entries:
            self._take_snapshot(self.end_offset)
        self.flush_job(self.end_offset)()
        self.flushed_offset = self.end_offset
        self.close()

    async def until_durable(self, offset: int) -> bool:
        """Until a loss of power takes neither what lies below an offset nor what was written beside it so far.

        False if that cannot be, since the log has failed, was closed, or was cut below the offset.
        """
        wanted = self._unsynced.changes
        self.flush(offset)
        while self.flushed_offset < offset or self._unsynced.synced < wanted:
            if self._flushing is None:
                self._start_flush()
            if self._flushing is None or self.end_offset < offset:
                return False
            await asyncio.wait([self._flushing])
            await asyncio.sleep(0)
        return True

    def sync_now(self) -> None:
        """Blocking: what was cut off must not come back, and nothing can go on before that is sure."""
        self.flush_job(self.flushed_offset)()

    async def settle(self) -> None:
        """Until nothing of this log is being written in the background."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
            await asyncio.sleep(0)

    def close(self) -> None:
        self.closed = True
        self.on_closed()
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        for segment in self.segments:
            segment.close()


def _has_flush_rules(config: LogConfig) -> bool:
    return config.flush_messages < _FOREVER or config.flush_ms < _FOREVER


def _nobody_listens(_: object) -> None:
    pass


def _nobody_cares() -> None:
    pass


def _flush_messages(config: LogConfig) -> int:
    """After how many records an acknowledgement waits for the disk. With flush.ms=0 that is after each."""
    return 1 if config.flush_ms == 0 else config.flush_messages
