"""Moves a partition's log to another log dir while it is written to and read.

The files are copied into a folder `topic-0.UNIQUE-future`, in threads, until what is missing is small. Then, within one
turn of the loop, so that nothing can be appended meanwhile: the rest is copied, the new folder gets its proper name,
the old one becomes `-delete`. The metadata is told before: of two folders with the same name the next start believes
the one that the metadata names. A move that is cut off leaves a `-future` folder, and the next start begins it anew. So
does a move whose log was cut at its end: what was copied may be of a history that is no more.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from errno import EBADF
from typing import Final, NamedTuple

from ottla.env.files import replace_file, sync_file
from ottla.env.ports import Env
from ottla.log.checkpoints import write_epochs, write_topic_id
from ottla.log.log_dir import LogDir
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import (
    FUTURE_DIR_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    marked_dir,
    offset_name,
)
from ottla.log.producers import write_snapshot
from ottla.log.segment import Segment

_log = logging.getLogger("ottla.log")

_PIECE: Final = 1024 * 1024
_SMALL: Final = 256 * 1024  # what may be copied while nobody else is served
_BESIDE: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)


class Moved(NamedTuple):
    log: PartitionLog
    old_folder: str | None  # to be removed


class LogMove:
    """One move. `run` ends with the log that has taken the place of the old one, or with OSError."""

    def __init__(
        self, env: Env, log: PartitionLog, source: LogDir, target: LogDir, pace: Callable[[int], Awaitable[None]]
    ) -> None:
        """`pace` is awaited for the bytes of each piece: it bounds how fast moves may copy."""
        self.log = log
        self.source = source
        self.target = target
        self.folder = f"{target.path}/{marked_dir(log.partition, env.random.uuid().hex, FUTURE_DIR_SUFFIX)}"
        self.size = 0
        """Bytes of batches that are copied."""
        self._env = env
        self._disk = env.disk
        self._pace = pace
        self._copied: dict[Segment, int] = {}
        self._finished: dict[Segment, None] = {}  # with their indexes, durably
        self._synced_offset = 0
        self._cuts = log.cuts

    @property
    def end_offset(self) -> int:
        """How far the copy has come, by whole segments."""
        for segment in self.log.segments:
            if segment not in self._finished:
                is_level = segment is self.log.active and self._copied.get(segment, 0) == segment.size
                return self.log.end_offset if is_level else segment.base_offset
        return self.log.end_offset

    async def run(self, tell: Callable[[], Awaitable[bool]]) -> Moved | None:
        """`tell` lets the metadata know, when all but a rest is copied; None if it does not agree."""
        self._begin()
        await self._catch_up()
        if not await tell():
            return None
        while True:
            await self._catch_up()
            if self._is_nearly_level():
                return self._swap()

    # -- copying

    def _begin(self) -> None:
        self._copied.clear()
        self._finished.clear()
        self.size = self._synced_offset = 0
        self._cuts = self.log.cuts
        self._disk.make_dirs(self.folder)
        replace_file(self._disk, f"{self.folder}/{PARTITION_METADATA}", write_topic_id(self.log.topic_id))

    async def _catch_up(self) -> None:
        while not self._is_nearly_level():
            if self.log.cuts != self._cuts:
                await self._env.executor.blocking(self.abandon)
                self._begin()
            for segment in list(self.log.segments):
                if segment not in self._finished:
                    try:
                        await self._copy(segment)
                    except OSError:
                        if segment in self.log.segments:
                            raise
                        # Deleted meanwhile: nobody needs it.

    async def _copy(self, segment: Segment) -> None:
        blocking = self._env.executor.blocking
        is_active = segment is self.log.active
        goal, size = self.log.end_offset, segment.size
        start = self._copied.setdefault(segment, 0)
        while True:
            count = await blocking(self._copy_piece, segment, start, min(_PIECE, size - start))
            self._copied[segment] = start = start + count
            self.size += count
            await self._pace(count)
            if start >= size or not count:
                break
        if is_active:
            await blocking(sync_file, self._disk, self._path(segment, LOG_SUFFIX))
            self._synced_offset = goal
        else:
            await blocking(self._finish, segment)
            self._finished[segment] = None

    def _is_nearly_level(self) -> bool:
        active = self.log.active
        if self.log.cuts != self._cuts:
            return False
        if any(segment not in self._finished for segment in self.log.segments[:-1]):
            return False
        return active in self._copied and active.size - self._copied[active] <= _SMALL

    def _path(self, segment: Segment, suffix: str) -> str:
        return f"{self.folder}/{offset_name(segment.base_offset)}{suffix}"

    def _copy_piece(self, segment: Segment, start: int, size: int) -> int:
        """In a thread."""
        target = self._disk.open(self._path(segment, LOG_SUFFIX), create=True)
        try:
            data = segment.file_for().pread(size, start)
            if data:
                target.write((data,), start)
            return len(data)
        finally:
            target.close()

    def _finish(self, segment: Segment) -> None:
        """In a thread: what belongs to a segment that is not written to any more, durably."""
        for path in [self._path(segment, LOG_SUFFIX), *self._copy_beside(segment)]:
            with suppress(FileNotFoundError):
                sync_file(self._disk, path)

    def _copy_beside(self, segment: Segment) -> list[str]:
        """Indexes, aborted transactions and the producers at its start, as far as there are any."""
        stem = segment.path.removesuffix(LOG_SUFFIX)
        made = []
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                source = self._disk.open(stem + suffix)
                try:
                    replace_file(self._disk, self._path(segment, suffix), source.pread(source.size(), 0))
                finally:
                    source.close()
                made.append(self._path(segment, suffix))
        return made

    # -- taking over

    def _swap(self) -> Moved:
        """Blocks for a few system calls, and two or three syncs: nothing may be appended before it is done."""
        log, disk = self.log, self._disk
        if log.closed or log.failed is not None:
            raise OSError(EBADF, "it was deleted meanwhile, or its disk has failed", log.folder)
        active = log.active
        while (start := self._copied[active]) < active.size:
            self._copied[active] = start + self._copy_piece(active, start, active.size - start)
        active.finish()  # else the copy's time index would not know the newest record
        beside = self._copy_beside(active)
        epochs = f"{self.folder}/{LEADER_EPOCH_CHECKPOINT}"
        snapshot = f"{self.folder}/{offset_name(log.end_offset)}{SNAPSHOT_SUFFIX}"
        replace_file(disk, epochs, write_epochs(log.epochs.starts))
        replace_file(disk, snapshot, write_snapshot(log.producers.entries.values()))
        if log.flushed_offset > self._synced_offset:  # what the old one has promised to keep
            sync_file(disk, self._path(active, LOG_SUFFIX))
        for path in (*beside, epochs, snapshot, f"{self.folder}/{PARTITION_METADATA}"):
            sync_file(disk, path)
        disk.sync_dir(self.folder)
        moved = self.target.take_over(self.folder, log, min(log.flushed_offset, log.end_offset))
        self.target.note_cleaned(log.partition, self.source.cleaned_offsets.get(log.partition))
        _log.info("%s moved from %s to %s", log.partition, self.source.path, self.target.path)
        try:
            return Moved(moved, self.source.let_go(log))
        except OSError as error:
            self.source.fail(error)
            return Moved(moved, None)

    def abandon(self) -> None:
        """Blocking: a copy that is no longer wanted."""
        self._disk.remove_tree(self.folder)
