"""The log of `__cluster_metadata-0` on disk, as the quorum sees it: a partition's log like any other."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.env.files import write_atomically
from ottla.env.ports import Buffer, Disk, Env
from ottla.log.checkpoints import write_topic_id
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import PARTITION_METADATA
from ottla.log.recovery import LoadRequest, load_log
from ottla.log.retention import delete_given_up
from ottla.log.truncation import truncate_fully_and_start_at, truncate_to
from ottla.model.config.topic import LogConfig
from ottla.model.names import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from ottla.raft.log_view import EpochStart
from ottla.raft.snapshot_format import SUFFIX, parse_name
from ottla.record.batch import parse_header

METADATA_PARTITION = TopicPartition(METADATA_TOPIC, 0)


class MetadataLog:
    def __init__(self, env: Env, log: PartitionLog) -> None:
        self.log = log
        self._env = env

    @classmethod
    def open(cls, env: Env, log_dir: str, config: LogConfig) -> MetadataLog:
        """Checks the whole log, as Kafka does: it is small, and everything hangs on it."""
        folder = f"{log_dir}/{METADATA_PARTITION}"
        if not env.disk.exists(f"{folder}/{PARTITION_METADATA}"):  # the folder may be there: with voters, by a format
            env.disk.make_dirs(folder)
            write_atomically(env.disk, f"{folder}/{PARTITION_METADATA}", write_topic_id(METADATA_TOPIC_ID))
            env.disk.sync_dir(log_dir)
        request = LoadRequest(
            *(folder, METADATA_PARTITION, METADATA_TOPIC_ID, config),
            clean=False,
            given_up_below=_snapshot_end(env.disk, folder),
        )
        return cls(env, load_log(env, request))

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def epoch_starts(self) -> list[EpochStart]:
        return [EpochStart(epoch, offset) for epoch, offset in self.log.epochs.starts]

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def last_epoch(self) -> int:
        return max(self.log.epochs.latest, 0)

    def append(self, batch: Buffer, epoch: int) -> int:
        header = parse_header(batch)
        return self.log.append(batch, header, epoch, header.max_timestamp, self._env.clock.now_ms())

    def append_as_is(self, batch: Buffer) -> None:
        self.log.append_as_is(batch, (parse_header(batch),), self._env.clock.now_ms())

    def truncate(self, end_offset: int) -> None:
        self._remove(truncate_to(self._env, self.log, end_offset))

    def trim(self, start_offset: int) -> list[str]:
        self.log.advance_start(start_offset)
        return delete_given_up(self.log)

    def size_from(self, start_offset: int) -> int:
        segments = self.log.segments
        following = [segment.base_offset for segment in segments[1:]] + [self.log.end_offset + 1]
        return sum(segment.size for segment, end in zip(segments, following, strict=True) if end > start_offset)

    def restart_at(self, offset: int) -> None:
        self._remove(truncate_fully_and_start_at(self._env, self.log, offset))

    def _remove(self, paths: list[str]) -> None:
        """Durably, before anything is appended: it is rare, and this log is read whole after every stop."""
        self.log.sync_now()
        for path in paths:
            self._env.disk.remove(path)

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        found: list[bytes] = []
        for batch in self.log.batches_from(offset):
            max_bytes -= len(batch)
            if found and max_bytes < 0:
                break
            found.append(batch)
        return found

    async def flush(self) -> int:
        while True:
            log, goal = self.log, self.log.end_offset
            if await log.until_durable(goal):
                return goal
            if log.failed is not None or log.closed:
                raise log.failed or OSError(f"{log.folder} was closed")

    def read_from(self, offset: int) -> Iterator[memoryview]:
        return map(memoryview, self.log.batches_from(offset))

    async def stop(self) -> None:
        await self.log.settle()
        self.log.stop()


def _snapshot_end(disk: Disk, folder: str) -> int:
    """How far the latest snapshot goes. A loss of power may bring back some of the segments that were trimmed for it:
    what is missing between them is no loss, and what comes after them is none of theirs."""
    found = (parse_name(name) for name in disk.list_dir(folder))
    return max((each[0].offset for each in found if each is not None and each[1] == SUFFIX), default=0)
