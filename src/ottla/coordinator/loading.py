"""Replays the log of an internal topic's partition into a coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.coordinator.machine import Machine, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.env.breath import Breath
from ottla.env.ports import Env
from ottla.log.index import NotInMemory
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import LogRead
from ottla.log.scan import ScannedBatch, end_marker
from ottla.record.reader import iterate_batches, read_records

_CHUNK: Final = 4 * 1024 * 1024


async def replay_log(
    env: Env, log: PartitionLog, machine: Machine, timeline: Timeline, goes_on: Callable[[], bool]
) -> int:
    """From the start to the end of the log; others are served in between. Gives the end, or where it was cut short."""
    breath = Breath(env.clock)
    offset = log.start_offset
    while offset < log.end_offset and goes_on():
        place = await _find(env, log, offset)
        if place is None:
            return log.end_offset  # compaction left nothing from here on
        data = await env.executor.blocking(place.file.pread, place.size, place.position)
        for header, batch in iterate_batches(data):
            if header.last_offset < offset:
                continue
            timeline.offset = header.base_offset
            if header.is_control:
                marker = end_marker(ScannedBatch(0, header, batch))
                if marker is not None:
                    machine.end_transaction(header.producer_id, header.producer_epoch, is_commit=marker.committed)
            else:
                producer = header.producer_id if header.is_transactional else -1
                for record in read_records(batch):
                    if record.key is not None:
                        timeline.offset = record.offset
                        machine.replay(StoredRecord(record.key, record.value), producer, header.producer_epoch)
            offset = header.next_offset
            timeline.commit(offset)
            await breath.take()
            if not goes_on():
                break
    return offset


async def _find(env: Env, log: PartitionLog, offset: int) -> LogRead | None:
    while True:
        try:
            return log.read(offset, _CHUNK, log.end_offset, at_least_one=True)
        except NotInMemory as missing:
            await env.executor.blocking(missing.file.pread, missing.size, missing.position)
