"""Checks the batches of one segment, and notes what its indexes must agree with."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from ottla.cli.log.content import DISK, all_zero, log_batches, rest_of
from ottla.cli.log.finding import LogFile
from ottla.cli.log.problems import ANOTHER_COPY, TORN, Problem
from ottla.cli.output import count
from ottla.log.scan import ScannedBatch, end_marker
from ottla.record.batch import MAGIC_V2, TIMESTAMP_TYPE_BIT, computed_crc
from ottla.record.reader import read_records
from ottla.record.records import CorruptBatch

_MAX_RELATIVE_OFFSET: Final = 0x7FFFFFFF


@dataclass(slots=True)
class Checked:
    """What is known of a segment after its check; lists go batch by batch."""

    file: LogFile
    positions: list[int] = field(default_factory=list)
    last_offsets: list[int] = field(default_factory=list)
    max_timestamps: list[int] = field(default_factory=list)
    epoch_starts: list[tuple[int, int]] = field(default_factory=list)
    aborted_at: dict[int, int] = field(default_factory=dict)  # offset of an abort marker -> producer
    gaps: list[tuple[int, int]] = field(default_factory=list)
    next_offset: int = 0
    records: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        """Indexes cannot be checked against what cannot be read."""
        return any(problem.serious for problem in self.problems)

    def batch_with(self, offset: int) -> int | None:
        """The number of the batch that holds an offset."""
        number = bisect_left(self.last_offsets, offset)
        return number if number < len(self.last_offsets) else None


def check_segment(file: LogFile, after: int | None, *, is_last: bool, deep: bool) -> Checked:
    """`after` is where the segment before it ends. `deep` also reads every record."""
    checked = Checked(file, next_offset=file.offset)
    if after is not None and after > file.offset:
        _complain(checked, 0, file.offset, f"the segment before it goes on to offset {after - 1}", ANOTHER_COPY)
    elif after is not None and after < file.offset:
        checked.gaps.append((after, file.offset))
    end, epoch = 0, -1
    for batch in log_batches(file.path):
        header = batch.header
        if header.magic != MAGIC_V2:
            break
        end = batch.position + header.size
        wrong = _header_problem(batch, checked, epoch) or (_records_problem(batch, checked) if deep else None)
        if wrong is not None:
            _complain(checked, batch.position, header.base_offset, wrong, ANOTHER_COPY)
            continue
        if header.base_offset > checked.next_offset:
            checked.gaps.append((checked.next_offset, header.base_offset))
        if header.leader_epoch > epoch:
            epoch = header.leader_epoch
            checked.epoch_starts.append((epoch, header.base_offset))
        checked.next_offset = header.next_offset
        checked.records += header.record_count
        checked.positions.append(batch.position)
        checked.last_offsets.append(header.last_offset)
        checked.max_timestamps.append(header.max_timestamp)
    _check_rest(checked, end, is_last=is_last)
    return checked


def _header_problem(batch: ScannedBatch, checked: Checked, epoch: int) -> str | None:
    header = batch.header
    if computed_crc(batch.data) != header.crc:
        return f"the checksum is wrong: {header.crc} is stored, {computed_crc(batch.data)} is right for these bytes"
    if header.last_offset_delta < 0:
        return f"the last offset delta is {header.last_offset_delta}"
    if header.base_offset < checked.next_offset:
        return f"offsets go back: {header.base_offset} comes where {checked.next_offset} or more should"
    if header.last_offset - checked.file.offset > _MAX_RELATIVE_OFFSET:
        return f"offset {header.last_offset} is too far from the segment's first for its index"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        return f"{count(header.record_count, 'record')} in {count(header.last_offset_delta + 1, 'offset')}"
    if header.leader_epoch < epoch:
        return f"leader epochs go back: {header.leader_epoch} comes after {epoch}"
    return None


def _records_problem(batch: ScannedBatch, checked: Checked) -> str | None:
    header = batch.header
    try:
        records = read_records(batch.data)
    except CorruptBatch as error:
        return f"its records cannot be read: {error}"
    before = header.base_offset - 1
    newest = -1
    for record in records:
        if not before < record.offset <= header.last_offset:
            return f"the record at offset {record.offset} comes after {before}, in a batch up to {header.last_offset}"
        before = record.offset
        newest = max(newest, record.timestamp)
    if records and not header.attributes & TIMESTAMP_TYPE_BIT and newest != header.max_timestamp:
        return f"the newest record is of {newest}, the header says {header.max_timestamp}"
    if header.is_control:
        marker = end_marker(batch)
        if marker is not None and not marker.committed:
            checked.aborted_at[header.last_offset] = header.producer_id
    elif checked.file.is_metadata:
        return _metadata_problem(batch)
    return None


def _metadata_problem(batch: ScannedBatch) -> str | None:
    from ottla.metadata.batches import batch_records
    from ottla.metadata.record_codec import RecordError

    try:
        batch_records(batch.data)
    except RecordError as error:
        return f"its metadata cannot be read: {error}"
    return None


def _check_rest(checked: Checked, end: int, *, is_last: bool) -> None:
    path = checked.file.path
    what = rest_of(path, end)
    if what is None or (is_last and all_zero(path, end)):  # room set aside for what is to come
        return
    serious = not is_last
    advice = ANOTHER_COPY if serious else TORN
    where = f"position {end} of {DISK.file_size(path)}, after offset {checked.next_offset - 1}"
    checked.problems.append(Problem(path, where, what, advice, serious))


def _complain(checked: Checked, position: int, offset: int, what: str, advice: str) -> None:
    checked.problems.append(Problem(checked.file.path, f"position {position}, offset {offset}", what, advice))
