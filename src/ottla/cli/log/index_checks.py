"""Checks what lies beside a segment against it: indexes, aborted transactions, leader epochs."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cli.log.content import DISK, offset_index, time_index, used_entries
from ottla.cli.log.finding import LogFile
from ottla.cli.log.problems import ANOTHER_COPY, CORRECTED, REBUILD, Problem
from ottla.cli.log.segment_check import Checked
from ottla.log.epochs import EpochStart, LeaderEpochs
from ottla.log.index import EntryFile
from ottla.log.txn_index import TxnIndex


def check_offset_index(file: LogFile, segment: Checked, *, is_last: bool) -> Iterator[Problem]:
    index = offset_index(file)
    yield from _size_problem(file, index.entries, is_last=is_last)
    by_position = dict(zip(segment.positions, segment.last_offsets, strict=True))
    before = (file.offset - 1, -1)
    for n in range(used_entries(index.entries)):
        offset, position = index.entry(n)
        where = f"entry {n}"
        if offset <= before[0] or position <= before[1]:
            yield Problem(
                file.path, where, f"offset {offset} at {position} comes after {before[0]} at {before[1]}", REBUILD
            )
        elif position not in by_position:
            yield Problem(file.path, where, f"no batch begins at {position}, where offset {offset} should be", REBUILD)
        elif by_position[position] != offset:
            yield Problem(
                file.path, where, f"the batch at {position} ends with {by_position[position]}, not {offset}", REBUILD
            )
        else:
            before = (offset, position)
            continue
        return  # one is enough to make it anew


def check_time_index(file: LogFile, segment: Checked, *, is_last: bool) -> Iterator[Problem]:
    index = time_index(file)
    yield from _size_problem(file, index.entries, is_last=is_last)
    newest = -1
    for n in range(used_entries(index.entries)):
        timestamp, offset = index.entry(n)
        batch = segment.batch_with(offset)
        if timestamp <= newest:
            what = f"time {timestamp} comes after {newest}"
        elif batch is None:
            what = f"offset {offset} is not in the segment"
        elif segment.max_timestamps[batch] != timestamp:
            what = f"the batch of offset {offset} has the time {segment.max_timestamps[batch]}, not {timestamp}"
        else:
            newest = timestamp
            continue
        yield Problem(file.path, f"entry {n}", what, REBUILD)
        return
    largest = max(segment.max_timestamps, default=-1)
    if not is_last and largest > newest:  # the one that is written to gets its last entry when it is finished
        yield Problem(
            file.path, "", f"it ends with the time {newest}, the segment has {largest}: retention goes by it", REBUILD
        )


def check_txn_index(file: LogFile, segment: Checked, *, deep: bool) -> Iterator[Problem]:
    index = TxnIndex(DISK, file.path)
    wrong = index.problem(file.offset)
    if wrong is not None:
        yield Problem(file.path, "", wrong.removeprefix(f"{file.path}").lstrip(": "), REBUILD)
        return
    if not deep:
        return
    for txn in index.aborted:
        if segment.aborted_at.get(txn.last_offset) != txn.producer_id:
            what = f"there is no abort of producer {txn.producer_id} at offset {txn.last_offset}"
            yield Problem(file.path, f"transaction from offset {txn.first_offset}", what, REBUILD)


def check_epochs(file: LogFile, starts: list[EpochStart], segments: list[Checked]) -> Iterator[Problem]:
    """A follower cuts its log by these."""
    epochs = LeaderEpochs(list(starts))
    for epoch, offset in (start for segment in segments for start in segment.epoch_starts):
        if epochs.covers(offset) and epochs.epoch_at(offset) != epoch:
            what = f"it has epoch {epochs.epoch_at(offset)} at offset {offset}, the batch there says {epoch}"
            yield Problem(file.path, f"offset {offset}", what, ANOTHER_COPY)
            return
    end = segments[-1].next_offset if segments else 0
    if starts and segments and starts[-1].start_offset > end:
        what = f"epoch {starts[-1].epoch} begins at {starts[-1].start_offset}, after the end of the log at {end}"
        yield Problem(file.path, "", what, CORRECTED, serious=False)


def _size_problem(file: LogFile, entries: EntryFile, *, is_last: bool) -> Iterator[Problem]:
    size = DISK.file_size(file.path)
    if size % entries.entry_size:
        yield Problem(file.path, f"byte {size}", f"{size} bytes are no whole entries of {entries.entry_size}", REBUILD)
    elif not is_last and used_entries(entries) < entries.count:
        yield Problem(file.path, "", "it ends with empty entries, although its segment is finished", REBUILD)
