"""Puts a cleaned segment into the place of those that it was made from.

In three steps, each durable before the next, so that a loss of power leaves the old segments or the new one and never
both: `.cleaned` becomes `.swap`, which is the promise that it is whole; the old segments become `.deleted`; `.swap`
gets its final name. `log/swap_files.py` ends at a start what was begun. Names are changed on the loop, as the folder
itself may get another one at any time; only syncing waits elsewhere. Readers find the new segment from the second step
on, by whatever name its files have.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ottla.env.ports import Env
from ottla.log.cleaning.contract import CleanedGroup
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import CLEANED_SUFFIX, SWAP_SUFFIX, offset_name
from ottla.log.segment import SEGMENT_SUFFIXES, Segment

_RENAMED_A_TURN: Final = 25


def remove_cleaned(env: Env, log: PartitionLog) -> None:
    """What a cleaning leaves that was given up. Those of a swap that was begun stay."""
    if not log.closed:
        for name in env.disk.list_dir(log.folder):
            if name.endswith(CLEANED_SUFFIX):
                env.disk.remove(f"{log.folder}/{name}")


async def swap(env: Env, log: PartitionLog, group: CleanedGroup) -> list[str] | None:
    """Gives the paths to remove later; None if the log is no longer as it was. OSError if the disk does not do it."""
    disk, blocking = env.disk, env.executor.blocking
    stem = f"{log.folder}/{offset_name(group.base_offset)}"
    if not _is_as_it_was(log, group):
        return None
    names = [stem + suffix for suffix in SEGMENT_SUFFIXES if disk.exists(stem + suffix + CLEANED_SUFFIX)]
    for name in names:
        disk.rename(name + CLEANED_SUFFIX, name + SWAP_SUFFIX)
    await blocking(disk.sync_dir, log.folder)
    if _is_gone(log):
        return None
    cleaned = Segment(disk, log.folder, group.base_offset, log.config, env.clock.now_ms(), SWAP_SUFFIX)
    await blocking(_load, cleaned)
    if not _is_as_it_was(log, group):
        if not _is_gone(log):
            for name in names:
                disk.remove(name + SWAP_SUFFIX)
        return None
    old = log.replace_segments(cleaned, len(group.replaced))
    paths: list[str] = []
    for number, segment in enumerate(old):
        paths += segment.mark_deleted()
        if number % _RENAMED_A_TURN == _RENAMED_A_TURN - 1:
            await asyncio.sleep(0)
            if _is_gone(log):
                return paths
    paths += log.take_snapshots_at(group.replaced[1:])
    await blocking(disk.sync_dir, log.folder)
    if _is_gone(log):
        return paths
    cleaned.take_place()
    await blocking(disk.sync_dir, log.folder)
    return paths


def _is_gone(log: PartitionLog) -> bool:
    return log.closed or log.failed is not None


def _is_as_it_was(log: PartitionLog, group: CleanedGroup) -> bool:
    bases = [segment.base_offset for segment in log.segments[:-1]]
    if _is_gone(log) or group.base_offset not in bases:
        return False
    first = bases.index(group.base_offset)
    return tuple(bases[first : first + len(group.replaced)]) == group.replaced


def _load(segment: Segment) -> None:
    """What the loop will ask of it is in memory then, and its files are open."""
    segment.may_wait(True)
    segment.load()
    segment.load_timestamps()
    segment.may_wait(False)
    _ = segment.txn_index.aborted
