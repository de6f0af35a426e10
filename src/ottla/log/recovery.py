"""Opens a partition's folder: checks what may be damaged, cuts a torn tail, rebuilds indexes and producer state.

After a clean stop everything is trusted but for a glance at each index. After a crash, all that lies before the
recovery point is trusted (it was synced, indexes included), and all that lies after is read and checked batch by batch.
A crash in the middle of this leaves a folder that opens with the same result.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise
from typing import Final
from uuid import UUID

from ottla.env.files import write_new_file
from ottla.env.ports import Env
from ottla.log.checkpoints import CorruptCheckpoint, read_epochs, write_topic_id
from ottla.log.epochs import EpochStart, LeaderEpochs
from ottla.log.index_check import index_problem, is_so, last_indexed_position
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    PARTITION_METADATA,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from ottla.log.producer_loading import ProducerLoader
from ottla.log.producers import Producers
from ottla.log.rebuild import rebuild_indexes
from ottla.log.scan import good_batches
from ottla.log.segment import Segment, new_segment, roll_jitter
from ottla.log.swap_files import finish_swaps
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition
from ottla.record.batch import BatchHeader

_log = logging.getLogger("ottla.log")
_EMPTY_FILES: Final = {offset_name(0) + suffix for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
_EMPTY_FOLDER: Final = {PARTITION_METADATA, *_EMPTY_FILES}
_LEFTOVERS: Final = (DELETED_SUFFIX, ".tmp", CLEANED_SUFFIX)


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
    high_watermark: int | None = None
    was_compacted: bool = False
    """Offsets may be missing, even if the topic is not compacted any more."""
    given_up_below: int = 0
    """Segments that end before it are not needed, though the log may begin there."""


def load_log(env: Env, request: LoadRequest) -> PartitionLog:
    names = env.disk.list_dir(request.folder)
    return _load_empty(env, request, names) or _Loader(env, request, names).load()


def create_log(env: Env, request: LoadRequest) -> PartitionLog:
    """A new one, in a folder that is made now."""
    env.disk.make_dirs(request.folder)
    segment = new_segment(env, request.folder, 0, request.config, env.clock.now_ms())
    segment.release()  # thousands are made at once, and most of them wait long for their first record
    metadata = f"{request.folder}/{PARTITION_METADATA}"
    write_new_file(env.disk, metadata, write_topic_id(request.topic_id))
    log = _empty_log(env, request, segment, as_stopped=False)
    log.sync_with_next_flush(metadata)
    return log


def _load_empty(env: Env, request: LoadRequest, names: list[str]) -> PartitionLog | None:
    """The short way for a folder that has never seen a record, as most of thousands have not; None for any other."""
    found = set(names)
    if not found >= _EMPTY_FILES or not found <= _EMPTY_FOLDER or request.start_offset:
        return None
    if any(env.disk.file_size(f"{request.folder}/{name}") for name in _EMPTY_FILES):
        return None
    segment = Segment(env.disk, request.folder, 0, request.config, env.clock.now_ms())
    segment.roll_jitter_ms = roll_jitter(env, request.config)
    return _empty_log(env, request, segment, as_stopped=request.clean)


def _empty_log(env: Env, request: LoadRequest, segment: Segment, *, as_stopped: bool) -> PartitionLog:
    return PartitionLog(
        env,
        request.folder,
        request.partition,
        request.topic_id,
        request.config,
        [segment],
        Producers(str(request.partition)),
        LeaderEpochs(),
        start_offset=0,
        end_offset=0,
        flushed_offset=0,
        as_stopped=as_stopped,
    )


class _Loader:
    def __init__(self, env: Env, request: LoadRequest, names: list[str]) -> None:
        self._env = env
        self._disk = env.disk
        self._request = request
        self._names = names
        self._config = request.config
        self._producers = ProducerLoader(
            env.disk, request.folder, str(request.partition), committed=request.high_watermark
        )
        self._stored_epochs: list[EpochStart] = []
        self._epochs = LeaderEpochs()
        self._was_compacted = request.config.compact or request.was_compacted

    def load(self) -> PartitionLog:
        request, now_ms = self._request, self._env.clock.now_ms()
        segments = self._open_segments(now_ms)
        self._epochs = self._load_epochs(segments)
        if self._has_lost_its_beginning(segments):
            _log.warning(
                "%s: records from %d to %d were lost with the power; the log of %s begins anew before them",
                *(request.folder, request.start_offset, segments[0].base_offset - 1, request.partition),
            )
            self._drop(segments, 0)
        local_start = max(request.start_offset, segments[0].base_offset if segments else 0)
        # With a remote tier what lies before the first segment is there, and only the checkpoint says from where on.
        is_tiered = self._config.remote_storage_enable and bool(segments)
        start_offset = request.start_offset if is_tiered else local_start
        doubtful, whole = self._first_doubtful(segments)
        if doubtful == len(segments):
            end_offset = self._check_tail(segments[-1]) if segments else start_offset
            self._producers.load(segments, end_offset)
        else:
            end_offset = self._recover(segments, doubtful, whole)
        if end_offset < start_offset:
            _log.warning(
                "%s ends at %d, before its start %d: starting it afresh", request.folder, end_offset, start_offset
            )
            self._remove(segments)
            segments.clear()
            end_offset = start_offset
            self._producers.state.clear(start_offset)
        doubted = segments[doubtful:]
        if not segments:
            segments.append(new_segment(self._env, request.folder, end_offset, self._config, now_ms))
        self._producers.remove_strays(segments, end_offset)
        self._epochs.truncate_from_end(end_offset)
        if end_offset > local_start and not self._epochs.covers(local_start):
            # It told of a later start, or of records that were lost with the power.
            self._epochs = self._epochs_in(segments)
        self._epochs.truncate_from_start(start_offset)
        self._epochs.truncate_from_end(end_offset)  # of an empty log: the next load would find none either
        for segment in segments:
            segment.load_timestamps()
            segment.may_wait(False)
            segment.release()
        self._producers.state.end_offset = end_offset
        log = PartitionLog(
            self._env,
            request.folder,
            request.partition,
            request.topic_id,
            self._config,
            segments,
            self._producers.state,
            self._epochs,
            start_offset=start_offset,
            end_offset=end_offset,
            flushed_offset=end_offset if request.clean else min(request.recovery_point, end_offset),
            as_stopped=request.clean and self._producers.has_snapshot(end_offset),
        )
        for segment in doubted:  # one that was cut back before the crash may be whole again after the next
            log.sync_with_next_flush(segment.path)
        for path in self._producers.written:
            log.sync_with_next_flush(path)
        if self._epochs.starts != self._stored_epochs:
            log.store_epochs()
        return log

    # -- files

    def _open_segments(self, now_ms: int) -> list[Segment]:
        folder = self._request.folder
        names = self._names
        if finish_swaps(self._disk, folder, names):
            names = self._disk.list_dir(folder)
        bases = sorted(name[: -len(LOG_SUFFIX)] for name in names if name.endswith(LOG_SUFFIX))
        # Retention has given these up before the crash, and their removal was undone by a loss of power.
        below = max(self._request.start_offset, self._request.given_up_below)
        given_up = [base for base, following in pairwise(bases) if int(following) <= below]
        if given_up and not self._producers.has_snapshot(int(bases[len(given_up)])):
            given_up = []  # what they tell of producers is nowhere else
        kept = bases[len(given_up) :]
        for name in names:
            stem, _, suffix = name.rpartition(".")
            belongs = f".{suffix}" in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
            if (belongs and stem not in kept) or name.endswith(_LEFTOVERS):
                self._disk.remove(f"{folder}/{name}")
        segments = [Segment(self._disk, folder, int(base), self._config, now_ms) for base in kept]
        for segment in segments:
            segment.may_wait(True)
            segment.roll_jitter_ms = roll_jitter(self._env, self._config)
        return segments

    def _remove(self, segments: list[Segment]) -> None:
        """Durably: else they could come back beside what is appended in their place."""
        for segment in segments:
            for path in segment.mark_deleted():
                self._disk.remove(path)
        if segments:
            self._disk.sync_dir(self._request.folder)

    def _load_epochs(self, segments: list[Segment]) -> LeaderEpochs:
        path = f"{self._request.folder}/{LEADER_EPOCH_CHECKPOINT}"
        try:
            self._stored_epochs = read_epochs(self._disk, path)
            if self._stored_epochs or not any(self._disk.file_size(segment.path) for segment in segments):
                return LeaderEpochs(list(self._stored_epochs))
            _log.warning("%s is missing or empty; taking the leader epochs from the log again", path)
        except CorruptCheckpoint as error:
            _log.warning("%s; taking the leader epochs from the log again", error)
        return self._epochs_in(segments)

    def _epochs_in(self, segments: list[Segment]) -> LeaderEpochs:
        epochs = LeaderEpochs()
        end_offset = segments[0].base_offset if segments else 0
        for segment in segments:
            size = self._disk.file_size(segment.path)
            for batch in good_batches(segment.file_for(), 0, size, segment.base_offset):
                if batch.header.leader_epoch > epochs.latest:
                    epochs.assign(batch.header.leader_epoch, self._began_at(batch.header, end_offset))
                end_offset = batch.header.next_offset
        return epochs

    def _began_at(self, header: BatchHeader, end_offset: int) -> int:
        """Where the epoch of a batch began, if what is left of those before it ends there.

        Compaction may have taken its first records. Then the file knows; else it began right after the others. Too
        early, and a follower fetches again what it has; too late, and it keeps what nobody else has.
        """
        for epoch, start_offset in self._stored_epochs:
            if epoch == header.leader_epoch and end_offset <= start_offset <= header.base_offset:
                return start_offset
        return end_offset

    # -- trust

    def _has_lost_its_beginning(self, segments: list[Segment]) -> bool:
        """Whether the first segments are gone, though nobody gave them up: a later file may outlive an earlier one.

        That can only be where nothing was ever flushed. The start moves durably before segments go, and the epochs with
        it: this is how one knows logs of Apache Kafka, whose checkpoint may say nothing of the start.
        """
        request = self._request
        if request.clean or self._config.remote_storage_enable or not segments:
            return False
        begins_at = segments[0].base_offset
        if max(request.start_offset, request.given_up_below, request.recovery_point) >= begins_at:
            return False
        told = self._stored_epochs[0].start_offset if self._stored_epochs else 0
        return request.recovery_point <= request.start_offset and told < begins_at

    def _first_doubtful(self, segments: list[Segment]) -> tuple[int, bool]:
        """The first segment to be read again, from its beginning or not; their number where all is in order."""
        point = self._request.recovery_point
        for number, segment in enumerate(segments):
            following = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if not self._request.clean and (following is None or following >= point):
                return number, False
            segment.load()
            problem = index_problem(self._disk, segment)
            if problem is not None:
                _log.warning("%s; rebuilding the indexes of %s", problem, segment.path)
                self._rebuild(segment)
            problem = segment.txn_index.problem(segment.base_offset)
            if problem is not None:  # only a replay of the transactions can tell what belongs there
                _log.warning("%s; reading the log again from %s on", problem, segment.path)
                return number, True
        return len(segments), False

    def _check_tail(self, segment: Segment) -> int:
        """One past the last record, read from the last index entry on; what is no batch is cut off."""
        start = last_indexed_position(segment)
        position, end_offset = self._read_to_end(segment, start)
        if position == start > 0:  # not even the batch that the entry leads to
            position, end_offset = self._read_to_end(segment, 0)
        if position < segment.size:
            self._tell_cut(segment, segment.size - position, end_offset)
            segment.file_for().truncate(position)
            segment.size = position
            self._rebuild(segment)
        return end_offset

    def _rebuild(self, segment: Segment) -> None:
        """Durably, as flushes look only at what is new."""
        rebuild_indexes(segment, self._config)
        segment.sync()
        self._disk.sync_dir(self._request.folder)

    def _read_to_end(self, segment: Segment, position: int) -> tuple[int, int]:
        end_offset = segment.base_offset
        for batch in good_batches(segment.file_for(), position, segment.size, end_offset):
            end_offset = batch.header.next_offset
            position = batch.position + batch.header.size
        return position, end_offset

    def _tell_cut(self, segment: Segment, cut: int, end_offset: int) -> None:
        _log.warning(
            "%s: cut %d bytes after the last good batch; the log of %s now ends at offset %d",
            *(segment.path, cut, self._request.partition, end_offset),
        )

    # -- after a crash

    def _recover(self, segments: list[Segment], first: int, whole: bool) -> int:
        """Reads everything beyond the recovery point; gives the end offset."""
        end_offset = 0
        for number, segment in enumerate(segments):  # which may become fewer on the way
            if number < first:
                continue
            if number > first and not self._may_follow(end_offset, segment):
                _log.warning(
                    "%s: records from %d to %d were lost with the power; the log of %s now ends before them",
                    *(self._request.folder, end_offset, segment.base_offset - 1, self._request.partition),
                )
                self._drop(segments, number)
                break
            segment.load()
            position, from_offset = 0, segment.base_offset
            if number == first:
                if not whole:
                    position, from_offset = self._start_of_doubt(segment)
                self._epochs.truncate_from_end(from_offset)  # the file may be of another history than the batches
                self._producers.load(segments[: number + 1], from_offset)
                end_offset = from_offset
            if position == 0 and number > 0:
                self._producers.keep_snapshot(segment.base_offset)
            size = segment.size
            end_offset = self._read_again(segment, position, from_offset, end_offset)
            if segment.size < size:
                self._tell_cut(segment, size - segment.size, end_offset)
                if self._was_compacted or not self._is_next(end_offset, segments, number + 1):
                    self._drop(segments, number + 1)  # before the cut: else a crash could leave a gap in the log
                segment.file_for().truncate(segment.size)
        for segment in segments[first:-1]:
            segment.finish()
        if whole:  # what lies before the recovery point is in no later flush
            for segment in segments[first:]:
                segment.sync()
            self._disk.sync_dir(self._request.folder)
        return end_offset

    def _may_follow(self, end_offset: int, segment: Segment) -> bool:
        """Whether a segment may come after what ends at an offset. Only compaction makes gaps that are no loss."""
        return segment.base_offset == end_offset or (self._was_compacted and segment.base_offset > end_offset)

    def _is_next(self, end_offset: int, segments: list[Segment], number: int) -> bool:
        return number < len(segments) and segments[number].base_offset == end_offset

    def _drop(self, segments: list[Segment], number: int) -> None:
        self._remove(segments[number:])
        del segments[number:]

    def _start_of_doubt(self, segment: Segment) -> tuple[int, int]:
        """Where checking must begin in the segment of the recovery point: at its last trusted index entry."""
        recovery_point = self._request.recovery_point
        if recovery_point <= segment.base_offset or index_problem(self._disk, segment, sizes_only=True) is not None:
            return 0, segment.base_offset
        offsets, times = segment.offset_index, segment.time_index
        offsets.keep_sound(recovery_point)
        if not offsets.entries.count:
            return 0, segment.base_offset
        last_offset, position = offsets.entry(offsets.entries.count - 1)
        header = segment.header_at(position)
        if header is None or header.last_offset != last_offset:
            return 0, segment.base_offset
        times.keep_sound(header.base_offset)
        while (last := times.last()) is not None and not is_so(segment, last.timestamp, last.offset):
            times.drop_after(times.entries.count - 1)
        offsets.entries.truncate(offsets.entries.count - 1)  # that of the first batch that is read again
        return position, header.base_offset

    def _read_again(self, segment: Segment, position: int, from_offset: int, before: int) -> int:
        """Checks batches and makes anew what is told of them elsewhere; `segment.size` then is the good part's.

        What lies before them ends at `before`.
        """
        size, interval = segment.size, self._config.index_interval_bytes
        if position == 0:
            segment.begin_rebuild()
            segment.txn_index.reset()
        else:
            segment.txn_index.keep_sound(segment.base_offset, from_offset)
            segment.load_timestamps()
            segment.expect_index_entry(interval)
        end_offset, segment.size = from_offset, position
        for batch in good_batches(segment.file_for(), position, size, from_offset):
            header = batch.header
            if header.base_offset != end_offset or header.record_count != header.last_offset_delta + 1:
                self._was_compacted = True
            segment.note(batch.position, header.size, header.last_offset, header.max_timestamp, interval)
            if header.leader_epoch > self._epochs.latest:
                self._epochs.assign(header.leader_epoch, self._began_at(header, before))
            self._producers.note(batch, segment)
            end_offset = before = header.next_offset
        if position == 0:
            segment.finish_rebuild(self._request.recovery_point)
        else:
            segment.write_index_tails()
        return end_offset
