"""Mistakes in the production code, one line each, that the checkers of a simulated node must find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker import producer_ids
from ottla.coordinator import shard
from ottla.log import log_dir, partition_log, producers, recovery, retention, scan, segment, unsynced
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_loading import ProducerLoader
from ottla.metadata import local_controller
from ottla.raft.metadata_log import MetadataLog
from ottla.replica.partition import Partition
from ottla.replica.progress import Progress

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "committable_offset", property(lambda log: log.end_offset))


def skip_checksums_in_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scan, "crc32c", _AnyCrc)


class _AnyCrc(int):
    """Equal to whatever it is compared with."""

    def __new__(cls, data: object) -> _AnyCrc:
        return super().__new__(cls)

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def forget_producers_in_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerLoader, "note", lambda *_: None)


def leave_producers_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_log, "write_snapshot", lambda entries: producers.write_snapshot(()))


def forget_to_sync_metadata(patch: pytest.MonkeyPatch) -> None:
    async def flush(self: MetadataLog) -> int:
        return self.log.end_offset

    patch.setattr(MetadataLog, "flush", flush)


def answer_before_metadata_is_committed(patch: pytest.MonkeyPatch) -> None:
    append = local_controller.LocalController._append

    def hasty(self: local_controller.LocalController, records: Any, reply: Any) -> Any:
        done = append(self, records, reply)
        self._feed._committed(self._raft.log.end_offset)
        return done

    patch.setattr(local_controller.LocalController, "_append", hasty)


def cut_one_batch_too_many(patch: pytest.MonkeyPatch) -> None:
    good_batches = scan.good_batches

    def fewer(*args: Any) -> Iterable[Any]:
        yield from list(good_batches(*args))[:-1]

    patch.setattr(recovery, "good_batches", fewer)


def recover_nothing_beyond_the_recovery_point(patch: pytest.MonkeyPatch) -> None:
    load = recovery.load_log
    patch.setattr(log_dir, "load_log", lambda env, request: load(env, replace(request, clean=True)))


def checkpoint_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    def offsets(self: log_dir.LogDir) -> Mapping[Any, int]:
        return {partition: log.end_offset for partition, log in self.logs.items()}

    patch.setattr(log_dir.LogDir, "_recovery_offsets", offsets)


def accept_sequences_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producers.Producers, "check", lambda self, header: None)


def recognise_only_the_last_batch(patch: pytest.MonkeyPatch) -> None:
    """A retry of an earlier one is then taken for a gap, and sent again under another id."""
    patch.setattr(producers.ProducerEntry, "duplicate_of", lambda self, header: None)


def show_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "high_watermark", property(lambda self: self.log.end_offset))
    advance = Partition._advance

    def further(self: Partition) -> None:
        advance(self)
        self.committed.advance(self.log.end_offset)

    patch.setattr(Partition, "_advance", further)


def let_the_high_watermark_go_back(patch: pytest.MonkeyPatch) -> None:
    advance = Progress.advance

    def wobbly(self: Progress, value: int) -> None:
        advance(self, value)
        if value % 7 == 0:
            self.value -= 1

    patch.setattr(Progress, "advance", wobbly)


def give_producer_ids_again(patch: pytest.MonkeyPatch) -> None:
    async def allocate(self: producer_ids.ProducerIds) -> None:
        self._reserve = (0, 1000)

    patch.setattr(producer_ids.ProducerIds, "_allocate", allocate)


def forget_to_sync_names(patch: pytest.MonkeyPatch) -> None:
    """Files are synced, the folder that names them is not."""
    job = unsynced.Unsynced.job

    def without_names(self: unsynced.Unsynced) -> Callable[[], None]:
        self._names = 0
        self._synced = max(self._synced, 1)
        return job(self)

    patch.setattr(unsynced.Unsynced, "job", without_names)


def find_one_place_too_far(patch: pytest.MonkeyPatch) -> None:
    find = segment.Segment.find

    def further(self: segment.Segment, offset: int) -> Any:
        return find(self, offset + 1 if offset % 11 == 10 else offset)

    patch.setattr(segment.Segment, "find", further)


def delete_one_segment_too_many(patch: pytest.MonkeyPatch) -> None:
    deletable = retention.deletable_segments

    def more(log: PartitionLog, *args: Any) -> int:
        return min(deletable(log, *args) + 1, len(log.segments) - 1)

    patch.setattr(retention, "deletable_segments", more)


def stop_without_a_sync(patch: pytest.MonkeyPatch) -> None:
    stop = PartitionLog.stop

    def careless(self: PartitionLog) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(PartitionLog, "flush_job", lambda *_: lambda: None)
            stop(self)

    patch.setattr(PartitionLog, "stop", careless)


def keep_the_clean_shutdown_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_dir, "read_clean_shutdown", lambda disk, folder: 1)


def coordinate_without_loading(patch: pytest.MonkeyPatch) -> None:
    async def nothing(env: Any, log: PartitionLog, *_: Any) -> int:
        return log.end_offset

    patch.setattr(shard, "replay_log", nothing)
