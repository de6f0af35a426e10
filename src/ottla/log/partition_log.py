"""The log of one partition: a row of segments, appended to at the end, read anywhere, cut at the start.

Nothing here waits for a disk: appends go to the page cache, reads that are not in memory raise NotInMemory, and fsync
runs in the executor (`flush`). `end_offset` is what was appended, `flushed_offset` what would survive a loss of power.
"""

from __future__ import annotations

import asyncio
import logging
import os.path
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from ottla.env.files import replace_file, sync_file
from ottla.env.ports import Buffer, Env, File
from ottla.log.checkpoints import write_epochs
from ottla.log.epochs import LeaderEpochs
from ottla.log.paths import DELETED_SUFFIX, LEADER_EPOCH_CHECKPOINT, SNAPSHOT_SUFFIX, offset_name
from ottla.log.producers import EndMarker, Producers, write_snapshot
from ottla.log.rebuild import rebuild_indexes
from ottla.log.segment import CorruptIndex, Place, Segment
from ottla.log.txn_index import AbortedTxn
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition
from ottla.record.batch import BatchHeader, new_head

_log = logging.getLogger("ottla.log")
_FOREVER: Final = 0x7FFFFFFFFFFFFFFF


class LogRead(NamedTuple):
    """A range of a segment's file; at its start a batch begins, at its end one may be cut."""

    file: File
    position: int
    size: int
    first_batch_size: int
    segment_base_offset: int


class OffsetOutOfRange(Exception):
    pass


class PartitionLog:
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
    ) -> None:
        self.folder = folder
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.segments = segments
        self.producers = producers
        self.epochs = epochs
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.flushed_offset = flushed_offset
        self.failed: OSError | None = None
        self.on_flushed: Callable[[int], None] = _nobody_listens
        self._env = env
        self._bases = [segment.base_offset for segment in segments]
        self._latest_epoch = epochs.latest
        self._flush_messages = config.flush_messages
        self._max_segment_ms = config.max_segment_ms
        self._flush_goal = flushed_offset
        self._due_flush = 0  # flush.messages says: nothing below is acknowledged before it is durable ...
        self._held_offset = 0  # ... from here on
        self._flushing: asyncio.Future[None] | None = None
        self._unsynced: dict[str, None] = {}  # small files that were replaced, for the next flush to sync
        self._new_names = True  # files were created since the folder was last synced
        self._new_folder = True  # the folder itself may be new
        self._closed = False

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def configure(self, config: LogConfig) -> None:
        self.config = config
        self._flush_messages = config.flush_messages
        self._max_segment_ms = config.max_segment_ms

    # -- appending

    def append(self, batch: Buffer, header: BatchHeader, leader_epoch: int, max_timestamp: int, now_ms: int) -> int:
        """Appends a checked batch as the leader; gives its base offset. OSError leaves the log as it was."""
        base_offset = self.end_offset
        last_offset = base_offset + header.last_offset_delta
        size = header.length + 12
        segment = self.segments[-1]
        if self._must_roll(segment, size, last_offset, max_timestamp, now_ms):
            segment = self.roll(now_ms)
        head = new_head(base_offset, header.length, leader_epoch)
        self._write(segment, (head, memoryview(batch)[16:]), size, last_offset, max_timestamp)
        if leader_epoch != self._latest_epoch:
            self.assign_epoch(leader_epoch, base_offset)
        if header.producer_id >= 0 and not header.is_control:
            self.producers.note(header, base_offset, max_timestamp)
        self.end_offset = self.producers.end_offset = last_offset + 1
        if self._flush_messages < _FOREVER:
            self._flush_if_due(base_offset)
        return base_offset

    def append_as_is(self, batch: Buffer, header: BatchHeader, now_ms: int) -> None:
        """Appends a batch that has its offsets and epoch already (raft and replication)."""
        segment = self.segments[-1]
        if self._must_roll(segment, header.size, header.last_offset, header.max_timestamp, now_ms):
            segment = self.roll(now_ms)
        self._write(segment, (batch,), header.size, header.last_offset, header.max_timestamp)
        if header.leader_epoch != self._latest_epoch:
            self.assign_epoch(header.leader_epoch, header.base_offset)
        if header.producer_id >= 0 and not header.is_control:
            self.producers.note(header, header.base_offset, header.max_timestamp)
        self.end_offset = self.producers.end_offset = header.next_offset

    def note_transaction_end(self, header: BatchHeader, marker: EndMarker, offset: int) -> None:
        """The end marker at `offset` was appended: readers of committed data may go on."""
        aborted = self.producers.note_end(header, marker, offset)
        if aborted is not None:
            self.active.txn_index.append(aborted)

    def _write(
        self, segment: Segment, buffers: tuple[Buffer, ...], size: int, last_offset: int, max_timestamp: int
    ) -> None:
        if self.failed is not None:
            raise self.failed
        before = segment.size
        try:
            segment.append(buffers, size, last_offset, max_timestamp, self.config.index_interval_bytes)
        except OSError as error:
            self.failed = error
            segment.size = before
            segment.file_for().truncate(before)
            raise

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        if self.epochs.assign(epoch, start_offset):
            self._replace(f"{self.folder}/{LEADER_EPOCH_CHECKPOINT}", write_epochs(self.epochs.starts))
        self._latest_epoch = self.epochs.latest

    def _replace(self, path: str, data: bytes) -> None:
        """Small files change inline, since a folder may be renamed at any time; the next flush makes them durable."""
        replace_file(self._env.disk, path, data)
        self._unsynced[path] = None
        self._new_names = True

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

    def roll(self, now_ms: int) -> Segment:
        """Starts a new segment at the end; the old one is flushed in the background."""
        old = self.segments[-1]
        base_offset = self.end_offset
        if old.base_offset == base_offset:
            return old  # there is nothing in it
        old.release()
        segment = new_segment(self._env, self.folder, base_offset, self.config, now_ms)
        self.segments.append(segment)
        self._bases.append(base_offset)
        self._new_names = True
        self._take_snapshot()
        self.flush(base_offset)
        return segment

    def _take_snapshot(self) -> None:
        path = f"{self.folder}/{offset_name(self.end_offset)}{SNAPSHOT_SUFFIX}"
        self._replace(path, write_snapshot(self.producers.entries.values()))

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

    def flush(self, upto: int | None = None) -> None:
        """Makes what was appended below an offset durable, in the background; `on_flushed` says when."""
        self._flush_goal = max(self._flush_goal, self.end_offset if upto is None else upto)
        if self._flushing is None and self._flush_goal > self.flushed_offset and self.failed is None:
            self._start_flush()

    def _start_flush(self) -> None:
        goal = self._flush_goal
        self._flushing = self._env.executor.blocking(self.flush_job(goal))
        self._flushing.add_done_callback(partial(self._flush_done, goal))

    def flush_job(self, goal: int) -> Callable[[], None]:
        """What blocks, for the executor or for a stop: everything below `goal` and the names of new files."""
        first = max(bisect_right(self._bases, self.flushed_offset) - 1, 0)
        last = bisect_right(self._bases, max(goal - 1, 0))
        segments = self.segments[first:last]
        for segment in segments:
            segment.write_index_tails()
        disk, folder = self._env.disk, self.folder
        small, names, new_folder = list(self._unsynced), self._new_names, self._new_folder
        self._unsynced.clear()
        self._new_names = self._new_folder = False

        def job() -> None:
            for segment in segments:
                segment.sync()
            for path in small:
                sync_file(disk, path)
            if names:
                disk.sync_dir(folder)
            if new_folder:
                disk.sync_dir(os.path.dirname(folder))

        return job

    def _flush_done(self, goal: int, future: asyncio.Future[None]) -> None:
        self._flushing = None
        error = future.exception()
        if self._closed:
            return  # deleted meanwhile, under the flush's feet
        if error is not None:
            # After a failed fsync nobody knows what is on disk: the kernel may have dropped the dirty pages.
            _log.error("%s could not be synced, nothing more is appended to it: %s", self.folder, error)
            self.failed = error if isinstance(error, OSError) else OSError(str(error))
            return
        self.flushed(goal)
        if self._flush_goal > self.flushed_offset:
            self._start_flush()

    def flushed(self, offset: int) -> None:
        if offset > self.flushed_offset:
            self.flushed_offset = offset
            self.on_flushed(offset)

    # -- reading

    def segment_for(self, offset: int) -> int:
        """Position in `segments` of the one that an offset belongs to."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool) -> LogRead | None:
        """Batches from `offset` up to, not including, `upper_offset`; None if there are none to give.

        Raises OffsetOutOfRange, and NotInMemory where a header must come from the disk first.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange
        if offset >= upper_offset:
            return None
        for number in range(self.segment_for(offset), len(self.segments)):
            segment = self.segments[number]
            if segment.base_offset >= upper_offset:
                return None
            place = self._find(segment, offset)
            if place is None:
                continue  # compaction left nothing at or after the offset in this segment
            end = segment.size
            is_last = number + 1 == len(self.segments)
            if upper_offset < (self.end_offset if is_last else self._bases[number + 1]):
                limit = self._find(segment, upper_offset)
                end = limit.position if limit is not None else end
            if place.position >= end:
                return None
            size = min(max(max_bytes, place.size if at_least_one else 0), end - place.position)
            if size <= 0:
                return None
            return LogRead(segment.file_for(), place.position, size, place.size, segment.base_offset)
        return None

    def _find(self, segment: Segment, offset: int) -> Place | None:
        return self.with_sound_indexes(segment, lambda: segment.find(offset))

    def with_sound_indexes(self, segment: Segment, search: Callable[[], Place | None]) -> Place | None:
        try:
            return search()
        except CorruptIndex as error:
            _log.warning("%s; rebuilding the indexes of this segment", error)
            rebuild_indexes(segment, self.config)
            return search()

    def aborted_between(self, first: int, end: int) -> list[AbortedTxn]:
        """Aborted transactions that touch a range of offsets, for a reader of committed data."""
        found: list[AbortedTxn] = []
        for segment in self.segments[self.segment_for(first) :]:
            for txn in segment.txn_index.aborted:
                if txn.last_offset >= first and txn.first_offset < end:
                    found.append(txn)
                if txn.last_stable_offset >= end:
                    return found
        return found

    def batches_from(self, offset: int) -> Iterator[bytes]:
        """Whole batches from an offset to the end, by blocking reads: for loading and tools, not for serving."""
        for segment in self.segments[self.segment_for(offset) :]:
            position = 0
            while (header := segment.header_at(position)) is not None:
                if header.last_offset >= offset:
                    yield segment.file_for().pread(header.size, position)
                position += header.size

    # -- cutting

    def advance_start(self, offset: int) -> None:
        """Records below the offset are no longer visible; whole segments below it go with the next retention check."""
        if offset > self.start_offset:
            self.start_offset = offset
            if self.epochs.truncate_from_start(offset):
                self._replace(f"{self.folder}/{LEADER_EPOCH_CHECKPOINT}", write_epochs(self.epochs.starts))

    def take_first_segments(self, count: int) -> list[Segment]:
        """Removes the oldest segments from the row; the caller deletes their files."""
        taken = self.segments[:count]
        del self.segments[:count]
        del self._bases[:count]
        self.advance_start(self._bases[0])
        return taken

    def take_snapshots_before(self, offset: int) -> list[str]:
        """Producer snapshots that nothing can need any more, renamed as segments are; gives the paths to remove."""
        marked = []
        for name in self._env.disk.list_dir(self.folder):
            if name.endswith(SNAPSHOT_SUFFIX) and int(name[: -len(SNAPSHOT_SUFFIX)]) < offset:
                path = f"{self.folder}/{name}"
                self._env.disk.rename(path, path + DELETED_SUFFIX)
                self._unsynced.pop(path, None)
                marked.append(path + DELETED_SUFFIX)
        return marked

    def stop(self) -> None:
        """Blocking: everything durable, indexes complete, producer state written; nothing is appended after this."""
        self.active.release()
        self._take_snapshot()
        self.flush_job(self.end_offset)()
        self.flushed_offset = self.end_offset
        self.close()

    async def settle(self) -> None:
        """Until nothing of this log is being written in the background."""
        while self._flushing is not None:
            await asyncio.wait([self._flushing])
            await asyncio.sleep(0)

    def close(self) -> None:
        self._closed = True
        for segment in self.segments:
            segment.close()


def new_segment(env: Env, folder: str, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
    segment = Segment(env.disk, folder, base_offset, config, now_ms)
    segment.create(preallocate=config.segment_bytes if config.preallocate else 0)
    jitter = min(config.segment_jitter_ms, config.max_segment_ms)
    segment.roll_jitter_ms = env.random.below(jitter) if jitter > 0 else 0
    return segment


def _nobody_listens(offset: int) -> None:
    pass
