"""Replays the log of an internal topic's partition into a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from ottla.coordinator.machine import Machine, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.env.breath import Breath
from ottla.env.ports import Env
from ottla.log.index import NotInMemory
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import LogRead
from ottla.log.scan import ScannedBatch, end_marker
from ottla.record.batch import BatchHeader
from ottla.record.reader import Entry, iterate_batches, read_entries

_CHUNK: Final = 4 * 1024 * 1024
_AT_ONCE: Final = 64  # records, before others may be served
_make: Final = tuple.__new__  # what a NamedTuple does, without a call in between


async def replay_log(
    env: Env, log: PartitionLog, machine: Machine, timeline: Timeline, goes_on: Callable[[], bool]
) -> int:
    """From the start to the end of the log; others are served in between. Gives the end, or where it was cut short."""
    breath = Breath(env.clock)
    latest = _Latest(machine, timeline)
    offset = log.start_offset
    while offset < log.end_offset and goes_on():
        place = await _find(env, log, offset)
        if place is None:
            return log.end_offset  # compaction left nothing from here on
        data = await env.executor.blocking(place.file.pread, place.size, place.position)
        for header, batch in iterate_batches(data):
            if header.last_offset < offset:
                continue
            if header.is_control or header.is_transactional:
                latest.replay_all()
                _replay_transactional(header, batch, machine, timeline)
            else:
                latest.take(read_entries(header, batch))
            offset = header.next_offset
            await breath.take()
            if not goes_on():
                break
        while goes_on() and latest.replay_some():
            await breath.take()
    return offset


class _Latest:
    """Of the records with the same key only the last is replayed, in its place.

    The topic is compacted: what was there before may be gone at any time, so no state can depend on it. A group that
    commits every few seconds leaves a thousand records for each partition that it reads.
    """

    def __init__(self, machine: Machine, timeline: Timeline) -> None:
        self._machine = machine
        self._timeline = timeline
        self._entries: dict[bytes, Entry] = {}

    def take(self, entries: list[Entry]) -> None:
        latest = self._entries
        for entry in entries:
            key = entry[1]
            if key is not None:
                if key in latest:
                    del latest[key]  # to the end of the row
                latest[key] = entry

    def replay_all(self) -> None:
        while self.replay_some():
            pass

    def replay_some(self) -> bool:
        """Whether there were any."""
        latest, replay, timeline = self._entries, self._machine.replay, self._timeline
        some = list(islice(latest, _AT_ONCE))
        for key in some:
            timeline.offset, _, value = latest.pop(key)
            replay(_make(StoredRecord, (key, value)), -1, -1)
        return bool(some)


def _replay_transactional(header: BatchHeader, batch: memoryview, machine: Machine, timeline: Timeline) -> None:
    timeline.offset = header.base_offset
    if header.is_control:
        marker = end_marker(ScannedBatch(0, header, batch))
        if marker is not None:
            machine.end_transaction(header.producer_id, header.producer_epoch, is_commit=marker.committed)
        return
    for record in read_entries(header, batch):
        if record.key is not None:
            timeline.offset = record.offset
            machine.replay(StoredRecord(record.key, record.value), header.producer_id, header.producer_epoch)


async def _find(env: Env, log: PartitionLog, offset: int) -> LogRead | None:
    while True:
        try:
            return log.read(offset, _CHUNK, log.end_offset, at_least_one=True)
        except NotInMemory as missing:
            await env.executor.blocking(missing.file.pread, missing.size, missing.position)
