"""Opens a partition's folder: checks what may be damaged, cuts a torn tail, rebuilds indexes and producer state.

After a clean stop everything is trusted but for a glance at each index. After a crash, all that lies before the
recovery point is trusted (it was synced, indexes included), and all that lies after is read and checked batch by batch.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final
from uuid import UUID

from ottla.env.files import read_file
from ottla.env.ports import Disk, Env
from ottla.log.checkpoints import CorruptCheckpoint, read_epochs
from ottla.log.epochs import LeaderEpochs
from ottla.log.partition_log import PartitionLog, new_segment
from ottla.log.paths import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from ottla.log.producers import CorruptSnapshot, Producers, read_snapshot
from ottla.log.rebuild import rebuild_indexes
from ottla.log.scan import ScannedBatch, end_marker, good_batches
from ottla.log.segment import Segment
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition

_log = logging.getLogger("ottla.log")
_LEFTOVERS: Final = (DELETED_SUFFIX, ".tmp", ".cleaned")


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What the log dir's checkpoints and marks say about one folder."""

    folder: str
    partition: TopicPartition
    topic_id: UUID
    config: LogConfig
    clean: bool
    recovery_point: int = 0
    start_offset: int = 0


def load_log(env: Env, request: LoadRequest) -> PartitionLog:
    return _Loader(env, request).load()


class _Loader:
    def __init__(self, env: Env, request: LoadRequest) -> None:
        self._env = env
        self._disk = env.disk
        self._request = request
        self._config = request.config
        self._producers = Producers(str(request.partition))
        self._epochs = LeaderEpochs()

    def load(self) -> PartitionLog:
        request, now_ms = self._request, self._env.clock.now_ms()
        segments = self._open_segments(now_ms)
        self._epochs = self._load_epochs(segments)
        trusted = self._first_doubtful(segments)
        start_offset = max(request.start_offset, segments[0].base_offset if segments else 0)
        for segment in segments[:trusted]:
            segment.load()
            self._check_indexes(segment)
        if trusted == len(segments):
            end_offset = self._check_tail(segments[-1]) if segments else start_offset
            self._load_producers(segments, start_offset, end_offset)
            self._replay_producers(segments, end_offset)
        else:
            end_offset = self._recover(segments, trusted, start_offset)
        if end_offset < start_offset:
            _log.warning(
                "%s ends at %d, before its start %d: starting it afresh", request.folder, end_offset, start_offset
            )
            self._remove(segments)
            segments.clear()
            end_offset = start_offset
            self._producers.clear(start_offset)
        if not segments:
            segments.append(new_segment(self._env, request.folder, end_offset, self._config, now_ms))
        self._remove_snapshots_beyond(end_offset)
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(start_offset)
        for segment in segments:
            segment.load_timestamps()
            segment.may_wait(False)
        self._producers.end_offset = end_offset
        return PartitionLog(
            self._env,
            request.folder,
            request.partition,
            request.topic_id,
            self._config,
            segments,
            self._producers,
            self._epochs,
            start_offset=start_offset,
            end_offset=end_offset,
            flushed_offset=end_offset if request.clean else min(request.recovery_point, end_offset),
        )

    # -- files

    def _open_segments(self, now_ms: int) -> list[Segment]:
        folder = self._request.folder
        names = self._disk.list_dir(folder)
        bases = {name[: -len(LOG_SUFFIX)] for name in names if name.endswith(LOG_SUFFIX)}
        for name in names:
            stem, _, suffix = name.rpartition(".")
            orphan = f".{suffix}" in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX) and stem not in bases
            if orphan or name.endswith(_LEFTOVERS):
                self._disk.remove(f"{folder}/{name}")
        segments = [Segment(self._disk, folder, int(base), self._config, now_ms) for base in sorted(bases)]
        for segment in segments:
            segment.may_wait(True)
        return segments

    def _remove(self, segments: list[Segment]) -> None:
        for segment in segments:
            for path in segment.mark_deleted():
                self._disk.remove(path)

    def _snapshots(self) -> list[tuple[int, str]]:
        folder = self._request.folder
        return [
            (int(name[: -len(SNAPSHOT_SUFFIX)]), f"{folder}/{name}")
            for name in self._disk.list_dir(folder)
            if name.endswith(SNAPSHOT_SUFFIX) and name[: -len(SNAPSHOT_SUFFIX)].isdigit()
        ]

    def _remove_snapshots_beyond(self, end_offset: int) -> None:
        for offset, path in self._snapshots():
            if offset > end_offset:
                self._disk.remove(path)

    def _load_epochs(self, segments: list[Segment]) -> LeaderEpochs:
        path = f"{self._request.folder}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            return LeaderEpochs(read_epochs(self._disk, path))
        except CorruptCheckpoint as error:
            _log.warning("%s; taking the leader epochs from the log again", error)
            epochs = LeaderEpochs()
            for segment in segments:
                size = self._disk.file_size(segment.path)
                for batch in good_batches(segment.file_for(), 0, size, segment.base_offset):
                    epochs.assign(batch.header.leader_epoch, batch.header.base_offset)
            return epochs

    # -- trust

    def _first_doubtful(self, segments: list[Segment]) -> int:
        """The first segment that may hold something unsynced; all of them are in order after a clean stop."""
        if self._request.clean:
            return len(segments)
        for number in range(len(segments)):
            if number + 1 == len(segments) or segments[number + 1].base_offset > self._request.recovery_point:
                return number
        return 0

    def _check_indexes(self, segment: Segment) -> None:
        problem = _index_problem(self._disk, segment)
        if problem is not None:
            _log.warning("%s; rebuilding the indexes of %s", problem, segment.path)
            rebuild_indexes(segment, self._config)

    def _check_tail(self, segment: Segment) -> int:
        """One past the last record, read from the last index entry on; what is no batch is cut off."""
        position, end_offset = _last_indexed_position(segment), segment.base_offset
        for batch in good_batches(segment.file_for(), position, segment.size, end_offset):
            end_offset = batch.header.next_offset
            position = batch.position + batch.header.size
        if position < segment.size:
            self._tell_cut(segment, segment.size - position, end_offset)
            segment.cut(position, end_offset)
        return end_offset

    def _tell_cut(self, segment: Segment, cut: int, end_offset: int) -> None:
        _log.warning(
            "%s: cut %d bytes after the last good batch; the log of %s now ends at offset %d",
            *(segment.path, cut, self._request.partition, end_offset),
        )

    # -- producers

    def _load_producers(self, segments: list[Segment], start_offset: int, upto: int) -> None:
        """From the newest snapshot at or below an offset; those that cannot be read are removed."""
        for offset, path in reversed(self._snapshots()):
            if offset > upto or offset < start_offset:
                continue
            try:
                self._producers.load(read_snapshot(read_file(self._disk, path)), offset)
                return
            except CorruptSnapshot as error:
                _log.warning("%s: %s; taking an older one", path, error)
                self._disk.remove(path)
        self._producers.clear(max(start_offset, segments[0].base_offset) if segments else start_offset)

    def _replay_producers(self, segments: list[Segment], upto: int) -> None:
        """Catches up from the snapshot to an offset through batches that are known to be good."""
        start = self._producers.end_offset
        for segment, following in zip_longest(segments, segments[1:]):
            if segment.base_offset >= upto or start >= upto:
                break
            if following is not None and following.base_offset <= start:
                continue
            entry = segment.offset_index.lookup(start)
            position = entry[1] if entry is not None else 0
            for batch in good_batches(segment.file_for(), position, segment.size, segment.base_offset):
                if batch.header.base_offset >= upto:
                    break
                if batch.header.last_offset >= start:
                    self._note(batch, None)
        self._producers.end_offset = upto

    def _note(self, batch: ScannedBatch, rebuilding: Segment | None) -> None:
        header = batch.header
        if header.producer_id < 0:
            return
        if not header.is_control:
            self._producers.note(header, header.base_offset, header.max_timestamp)
        elif (marker := end_marker(batch)) is not None:
            aborted = self._producers.note_end(header, marker, header.base_offset)
            if aborted is not None and rebuilding is not None:
                rebuilding.txn_index.append(aborted)

    # -- after a crash

    def _recover(self, segments: list[Segment], first: int, start_offset: int) -> int:
        """Reads everything beyond the recovery point; gives the end offset."""
        end_offset = 0
        for number in range(first, len(segments)):
            segment = segments[number]
            segment.load()
            position, from_offset = (0, segment.base_offset) if number > first else self._start_of_doubt(segment)
            if number == first:
                self._load_producers(segments[: number + 1], start_offset, from_offset)
                self._replay_producers(segments[: number + 1], from_offset)
            end_offset, cut = self._recover_segment(segment, position, from_offset)
            if cut:
                self._tell_cut(segment, cut, end_offset)
                self._remove(segments[number + 1 :])
                del segments[number + 1 :]
                break
        for segment in segments[first:-1]:
            segment.release()
        return end_offset

    def _start_of_doubt(self, segment: Segment) -> tuple[int, int]:
        """Where checking must begin in the segment of the recovery point: at its last trusted index entry."""
        recovery_point = self._request.recovery_point
        if recovery_point <= segment.base_offset or _index_problem(self._disk, segment, recovery_point) is not None:
            return 0, segment.base_offset
        entry = segment.offset_index.lookup(recovery_point - 1)
        if entry is None:
            return 0, segment.base_offset
        header = segment.header_at(entry[1])
        if header is None or header.last_offset != entry[0]:
            return 0, segment.base_offset
        return entry[1], header.base_offset

    def _recover_segment(self, segment: Segment, position: int, from_offset: int) -> tuple[int, int]:
        file, size = segment.file_for(), segment.size
        if position == 0:
            segment.reset_indexes()
            segment.txn_index.reset()
        else:
            segment.offset_index.truncate_to(from_offset)
            segment.time_index.truncate_to(from_offset)
            segment.txn_index.truncate_to(from_offset)
            segment.load_timestamps()
        interval = self._config.index_interval_bytes
        end_offset, segment.size = from_offset, position
        for batch in good_batches(file, position, size, from_offset):
            header = batch.header
            segment.note(batch.position, header.size, header.last_offset, header.max_timestamp, interval)
            self._epochs.assign(header.leader_epoch, header.base_offset)
            self._note(batch, segment)
            end_offset = header.next_offset
        if segment.size < size:
            file.truncate(segment.size)
        segment.write_index_tails()
        return end_offset, size - segment.size


def _index_problem(disk: Disk, segment: Segment, below: int | None = None) -> str | None:
    """What is visibly wrong with a segment's indexes, by size and last entries."""
    for index in (segment.offset_index, segment.time_index):
        path = index.entries.path
        if not disk.exists(path):
            return f"{path} is missing"
        if disk.file_size(path) % index.entries.entry_size:
            return f"{path} does not hold whole entries"
    if below is not None:
        return None  # after a crash the ends of the files are not worth a look
    if segment.offset_index.entries.count:
        offset, position = segment.offset_index.entry(segment.offset_index.entries.count - 1)
        header = segment.header_at(position) if 0 <= position < segment.size else None
        if header is None or header.last_offset != offset:
            return f"{segment.offset_index.entries.path} ends with an entry that leads to no batch"
    last = segment.time_index.last()
    if last is not None:
        count = segment.time_index.entries.count
        before = segment.time_index.entry(count - 2) if count > 1 else None
        if last.offset < segment.base_offset or (before is not None and before.timestamp >= last.timestamp):
            return f"{segment.time_index.entries.path} ends with an entry that is out of order"
    return None


def _last_indexed_position(segment: Segment) -> int:
    count = segment.offset_index.entries.count
    return segment.offset_index.entry(count - 1)[1] if count else 0
