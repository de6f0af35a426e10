"""One log dir: its lock, its checkpoints, its clean-shutdown mark, and the folders of partitions in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from errno import EIO
from typing import Final
from uuid import UUID

from ottla.env.files import replace_file, write_atomically
from ottla.env.ports import Env
from ottla.log.background_file import BackgroundFile
from ottla.log.checkpoints import (
    CorruptCheckpoint,
    read_clean_shutdown,
    read_offsets,
    read_topic_id,
    write_clean_shutdown,
    write_offsets,
    write_topic_id,
)
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import (
    CLEAN_SHUTDOWN_MARK,
    CLEANER_CHECKPOINT,
    DELETE_DIR_SUFFIX,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK_FILE,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    STRAY_DIR_SUFFIX,
    marked_dir,
    parse_future_dir,
    parse_partition_dir,
)
from ottla.log.recovery import LoadRequest, create_log, load_log
from ottla.model.config.topic import LogConfig
from ottla.model.errors import OttlaError
from ottla.model.names import METADATA_TOPIC, TopicPartition

_log = logging.getLogger("ottla.log")

_STOPPING_JOBS: Final = 64
DIRECTORY_WITHOUT_ID: Final = UUID(int=0)
# What the metadata says of a folder in the log dir with that id. The folder itself may not say whose it is.
KnownTopic = Callable[[TopicPartition, UUID | None, UUID], tuple[UUID, LogConfig] | None]


class LogDir:
    """Opened once; from then on no other process may use the folder. OSError if it cannot be used at all.

    It fails as a whole, as Kafka's do: where one write or sync has failed nobody knows what the disk does with others.
    """

    def __init__(self, env: Env, path: str, directory_id: UUID = DIRECTORY_WITHOUT_ID) -> None:
        self.path = path
        self.id = directory_id
        self.failed: OSError | None = None
        self.is_cordoned = False
        self.on_failed: Callable[[LogDir], None] = lambda _: None
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.unfinished: list[tuple[TopicPartition, str]] = []
        """Folders of moves to this dir that were cut off."""
        self._env = env
        self._disk = env.disk
        self._disk.make_dirs(path)
        try:
            self._unlock = self._disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise OttlaError(
                f"{path} is in use by another broker. Stop that one, or choose another folder with --data or log.dirs."
            ) from error
        self.clean_broker_epoch = read_clean_shutdown(self._disk, path)
        self.high_watermarks = self._offsets(HIGH_WATERMARK_CHECKPOINT)
        self._recovery_points = self._offsets(RECOVERY_POINT_CHECKPOINT)
        self._start_offsets = self._offsets(LOG_START_OFFSET_CHECKPOINT)
        self.cleaned_offsets = self._offsets(CLEANER_CHECKPOINT)
        """By partition: below this offset no key comes twice."""
        self._cleaner_file = BackgroundFile(env, f"{path}/{CLEANER_CHECKPOINT}", self.fail)
        self._recovery_file = BackgroundFile(env, f"{path}/{RECOVERY_POINT_CHECKPOINT}", self.fail)
        self._start_file = BackgroundFile(env, f"{path}/{LOG_START_OFFSET_CHECKPOINT}", self.fail)
        self._high_watermark_file = BackgroundFile(env, f"{path}/{HIGH_WATERMARK_CHECKPOINT}", self.fail)
        self._checkpointed_high_watermarks: dict[TopicPartition, int] | None = None
        # Deleted partitions, and the `put` of each file from which on they are no longer in them.
        self._forgotten: dict[TopicPartition, tuple[int, int, int]] = {}

    @property
    def was_clean(self) -> bool:
        return self.clean_broker_epoch is not None

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offsets(self._disk, f"{self.path}/{name}")
        except CorruptCheckpoint as error:
            _log.warning("%s; going on without what it says", error)
            return {}

    def fail(self, error: OSError) -> None:
        """From here on nothing in it is used: its logs acknowledge nothing more, and its files are let go."""
        if self.failed is not None:
            return
        self.failed = error
        _log.error(
            "%s has failed with its %d partitions, which are offline until a restart: %s. Repair or replace the disk, "
            "then restart.",
            *(self.path, len(self.logs), error),
        )
        for log in list(self.logs.values()):
            log.fail(error)
            log.close()
        self._unlock()
        self.on_failed(self)

    def unlock(self) -> None:
        """For a dir that was locked and not used otherwise."""
        self._unlock()

    # -- loading

    def load(self, known: KnownTopic) -> list[str]:
        """Opens all partitions that the metadata knows; gives the folders that wait for their deletion."""
        # Before anything is touched: after a crash in here the folders are no longer as the stop left them.
        self._disk.remove(f"{self.path}/{CLEAN_SHUTDOWN_MARK}")
        self._disk.sync_dir(self.path)
        to_delete = []
        folders = self._disk.list_folders(self.path)
        if not self.was_clean and any(map(_is_partition, folders)):  # a new folder has nothing to check
            _log.info("%s was not left by a clean stop: what lies beyond the recovery points is checked", self.path)
        for number, name in enumerate(folders):
            folder = f"{self.path}/{name}"
            if name.endswith(DELETE_DIR_SUFFIX):
                to_delete.append(folder)
                continue
            if (moving := parse_future_dir(name)) is not None:
                self.unfinished.append((moving, folder))
                continue
            partition = parse_partition_dir(name)
            if partition is None or not _is_partition(name):
                continue
            topic_id = self._topic_id(folder)
            topic = known(partition, topic_id, self.id)
            if topic is None:
                self._set_aside(folder, partition)
                continue
            log = self.logs[partition] = self._load_one(folder, partition, *topic)
            if topic_id is None:
                self._write_topic_id(log)
            elif not self.was_clean:  # it may be there in memory only
                log.sync_with_next_flush(f"{folder}/{PARTITION_METADATA}")
            if not self.was_clean and (number + 1) % 100 == 0:
                _log.info("checked %d of %d partitions in %s", number + 1, len(folders), self.path)
        self._disk.sync_dir(self.path)
        self._correct_checkpoints()
        self._correct_cleaned_offsets()
        return to_delete

    def _correct_checkpoints(self) -> None:
        """A point beyond what is there, or of a partition that is not, must not be believed after the next crash."""
        for name, read, right in (
            (RECOVERY_POINT_CHECKPOINT, self._recovery_points, self._recovery_offsets()),
            (LOG_START_OFFSET_CHECKPOINT, self._start_offsets, self._start_offsets_to_keep()),
        ):
            if any(right.get(partition, -1) < offset for partition, offset in read.items()):
                write_atomically(self._disk, f"{self.path}/{name}", write_offsets(right))

    def _correct_cleaned_offsets(self) -> None:
        """Before the log grows beyond such a point, or a namesake does: keys that come twice would stay for ever."""
        right = {partition: offset for partition, offset in self.cleaned_offsets.items() if partition in self.logs}
        for partition, offset in right.items():
            if offset > self.logs[partition].end_offset:
                right[partition] = self.logs[partition].start_offset
                _log.warning(
                    "%s was said to be clean up to offset %d, which it does not have; it is cleaned from %d on",
                    *(partition, offset, right[partition]),
                )
        if right != self.cleaned_offsets:
            self.cleaned_offsets = right
            write_atomically(self._disk, f"{self.path}/{CLEANER_CHECKPOINT}", write_offsets(right))

    def _topic_id(self, folder: str) -> UUID | None:
        """None after a crash so soon after the folder was made that the file is not whole; the name then decides."""
        try:
            return read_topic_id(self._disk, f"{folder}/{PARTITION_METADATA}")
        except CorruptCheckpoint as error:
            _log.warning("%s; going by the folder's name", error)
            return None

    def _load_one(self, folder: str, partition: TopicPartition, topic_id: UUID, config: LogConfig) -> PartitionLog:
        request = LoadRequest(
            folder,
            partition,
            topic_id,
            config,
            self.was_clean,
            self._recovery_points.get(partition, 0),
            self._start_offsets.get(partition, 0),
            self.high_watermarks.get(partition),
            partition in self.cleaned_offsets,
        )
        return self._opened(load_log(self._env, request))

    def _opened(self, log: PartitionLog) -> PartitionLog:
        log.on_error = self.fail
        return log

    def _set_aside(self, folder: str, partition: TopicPartition) -> None:
        """Nobody may delete what he does not know: the folder stays, under a name that says so (as Kafka does)."""
        stray = f"{self.path}/{marked_dir(partition, self._env.random.uuid().hex, STRAY_DIR_SUFFIX)}"
        _log.warning("%s belongs to no topic in the metadata; renamed to %s", folder, stray)
        self._disk.rename(folder, stray)

    # -- partitions come and go

    def create(self, partition: TopicPartition, topic_id: UUID, config: LogConfig) -> PartitionLog:
        self._be_sure_it_is_forgotten(partition)
        folder = f"{self.path}/{partition}"
        if self._disk.exists(folder):  # of a namesake, which could not be renamed when it was deleted
            self._set_aside(folder, partition)
        log = self._opened(create_log(self._env, LoadRequest(folder, partition, topic_id, config, clean=True)))
        self.logs[partition] = log
        return log

    def take_over(self, folder: str, log: PartitionLog, flushed_offset: int) -> PartitionLog:
        """A whole copy of a log that lies in another dir, under another name, becomes the log."""
        target = f"{self.path}/{log.partition}"
        if self._disk.exists(target):
            self._set_aside(target, log.partition)
        self._be_sure_it_is_forgotten(log.partition)
        self._disk.rename(folder, target)
        try:
            self._disk.sync_dir(self.path)
            request = LoadRequest(
                target, log.partition, log.topic_id, log.config, True, start_offset=log.start_offset, was_compacted=True
            )
            moved = self._opened(load_log(self._env, request))
            if moved.end_offset != log.end_offset:
                raise OSError(EIO, f"the copy ends at offset {moved.end_offset}, not {log.end_offset}", target)
        except OSError:
            self._disk.rename(target, folder)
            raise
        moved.continue_from(log, flushed_offset)
        self.logs[log.partition] = moved
        # Before the other folder forgets where the log begins.
        self._start_file.put_now(write_offsets(self._start_offsets_to_keep()))
        return moved

    def let_go(self, log: PartitionLog) -> str:
        """The log goes on in another dir; what lies here must not come back. The folder is the caller's to remove."""
        folder = self.delete(log.partition)
        self._disk.sync_dir(self.path)
        return folder

    def _write_topic_id(self, log: PartitionLog) -> None:
        path = f"{log.folder}/{PARTITION_METADATA}"
        replace_file(self._disk, path, write_topic_id(log.topic_id))
        log.sync_with_next_flush(path)

    def _be_sure_it_is_forgotten(self, partition: TopicPartition) -> None:
        """A checkpoint that still has offsets of a deleted topic would, after a crash, be applied to its namesake."""
        recovery, start, cleaned = self._forgotten.get(partition, (0, 0, 0))
        if self._recovery_file.on_disk < recovery:
            self._recovery_file.put_now(write_offsets(self._recovery_offsets()))
        if self._start_file.on_disk < start:
            self._start_file.put_now(write_offsets(self._start_offsets_to_keep()))
        if self._cleaner_file.on_disk < cleaned:
            self._cleaner_file.put_now(write_offsets(self.cleaned_offsets))
        self._forgotten.pop(partition, None)

    def delete(self, partition: TopicPartition) -> str:
        """The partition is gone at once; its folder, under its new name, is the caller's to remove later."""
        log = self.logs.pop(partition)
        self.note_cleaned(partition, None)
        target = f"{self.path}/{marked_dir(partition, self._env.random.uuid().hex, DELETE_DIR_SUFFIX)}"
        log.close()
        try:
            self._disk.rename(log.folder, target)
        finally:
            self.checkpoint()
            puts = self._recovery_file.put_count, self._start_file.put_count, self._cleaner_file.put_count
            self._forgotten[partition] = puts
        return target

    # -- checkpoints

    def note_cleaned(self, partition: TopicPartition, offset: int | None) -> None:
        """How far a log is clean; None for one that is gone."""
        if offset is None:
            if self.cleaned_offsets.pop(partition, None) is None:
                return
        elif self.cleaned_offsets.get(partition) == offset:
            return
        else:
            self.cleaned_offsets[partition] = offset
        self._cleaner_file.put(lambda: write_offsets(self.cleaned_offsets))

    async def remember_compaction(self, log: PartitionLog) -> bool:
        """Durably: what is about to be cleaned is one that may lack offsets. False if that was not possible."""
        if log.partition not in self.cleaned_offsets:
            self.note_cleaned(log.partition, log.start_offset)
        await self._cleaner_file.settle()
        return self._cleaner_file.on_disk >= self._cleaner_file.put_count

    def checkpoint(self) -> None:
        self._recovery_file.put(lambda: write_offsets(self._recovery_offsets()))
        self._start_file.put(lambda: write_offsets(self._start_offsets_to_keep()))
        done = [
            partition
            for partition, (recovery, start, cleaned) in self._forgotten.items()
            if self._recovery_file.on_disk >= recovery
            and self._start_file.on_disk >= start
            and self._cleaner_file.on_disk >= cleaned
        ]
        for partition in done:
            del self._forgotten[partition]

    async def make_start_offsets_durable(self) -> bool:
        """False if that was not possible."""
        number = self._start_file.put(lambda: write_offsets(self._start_offsets_to_keep()))
        await self._start_file.settle()
        return self._start_file.on_disk >= number

    async def checkpoint_durably(self) -> bool:
        """False if that was not possible."""
        self.checkpoint()
        files = (self._recovery_file, self._start_file, self._cleaner_file)
        numbers = [file.put_count for file in files]
        for file in files:
            await file.settle()
        return all(file.on_disk >= number for file, number in zip(files, numbers, strict=True))

    def make_cut_durable_now(self, log: PartitionLog) -> None:
        """Blocking."""
        self._recovery_file.put_now(write_offsets(self._recovery_offsets()))
        self._start_file.put_now(write_offsets(self._start_offsets_to_keep()))
        log.sync_now()

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        if offsets != self._checkpointed_high_watermarks:
            self._checkpointed_high_watermarks = offsets
            self._high_watermark_file.put(lambda: write_offsets(offsets))

    def _recovery_offsets(self) -> dict[TopicPartition, int]:
        return {partition: log.flushed_offset for partition, log in self.logs.items()}

    def _start_offsets_to_keep(self) -> dict[TopicPartition, int]:
        """Also where the first segment's name says the same: after a loss of power older ones may be there again."""
        return {partition: log.start_offset for partition, log in self.logs.items() if log.start_offset > 0}

    async def settle(self) -> None:
        """Until nothing in this folder is being written in the background."""
        for file in (self._recovery_file, self._start_file, self._high_watermark_file, self._cleaner_file):
            await file.settle()
        for log in list(self.logs.values()):  # topics still come and go
            await log.settle()

    async def stop(self, high_watermarks: dict[TopicPartition, int], broker_epoch: int) -> None:
        """Everything durable, and the mark that says so; without the mark if it is not."""
        if self.failed is not None:
            return
        blocking = self._env.executor.blocking
        logs = [log for log in self.logs.values() if log.failed is None]
        jobs = min(len(logs), _STOPPING_JOBS)
        await asyncio.gather(*[blocking(_stop, logs[number::jobs]) for number in range(jobs)])
        try:
            for file, offsets in (
                (self._recovery_file, self._recovery_offsets()),
                (self._start_file, self._start_offsets_to_keep()),
                (self._high_watermark_file, high_watermarks),
            ):
                file.put_now(write_offsets(offsets))  # the same may be on its way in a thread
            if all(log.failed is None for log in self.logs.values()):
                write_atomically(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_MARK}", write_clean_shutdown(broker_epoch))
        except OSError as error:
            _log.error("%s could not be left in order and will be checked at the next start: %s", self.path, error)
        self._unlock()


def _stop(logs: list[PartitionLog]) -> None:
    """In a thread: nothing else uses the logs any more."""
    for log in logs:
        try:
            log.stop()
        except OSError as error:
            _log.error("%s could not be made durable and will be checked at the next start: %s", log.folder, error)
            log.failed = error


def _is_partition(folder: str) -> bool:
    """One that clients may know: not the metadata log's, not one set aside."""
    partition = parse_partition_dir(folder)
    return partition is not None and partition.topic != METADATA_TOPIC and not folder.endswith(STRAY_DIR_SUFFIX)
