"""Checks a folder with files of a log as a whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.log import problems
from ottla.cli.log.content import entries
from ottla.cli.log.finding import Folder, Kind, LogFile
from ottla.cli.log.index_checks import check_epochs, check_offset_index, check_time_index, check_txn_index
from ottla.cli.log.problems import Problem
from ottla.cli.log.segment_check import Checked, check_segment
from ottla.log.epochs import EpochStart
from ottla.log.paths import parse_partition_dir
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition


@dataclass(slots=True)
class Report:
    folder: str
    segments: list[Checked] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def end_offset(self) -> int | None:
        return self.segments[-1].next_offset if self.segments else None

    def as_row(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "segments": len(self.segments),
            "batches": sum(len(segment.positions) for segment in self.segments),
            "records": sum(segment.records for segment in self.segments),
            "begins": self.segments[0].file.offset if self.segments else None,
            "ends": self.end_offset,
            "problems": [problem.as_row() for problem in self.problems],
        }


def check_folder(folder: Folder, *, deep: bool, told: Callable[[int], None] = lambda batches: None) -> Report:
    """A partition's folder, or single files of one: what is there is checked against what else is there."""
    report = Report(folder.path)
    logs = folder.of(Kind.LOG)
    after = None
    for number, file in enumerate(logs):
        checked = check_segment(file, after, is_last=number == len(logs) - 1, deep=deep)
        after = checked.next_offset
        report.segments.append(checked)
        report.problems += checked.problems
        told(sum(len(segment.positions) for segment in report.segments))
    report.problems += _gaps(report)
    for file in folder.of(Kind.SNAPSHOT):
        report.problems += check_segment(LogFile(file.path, file.kind), None, is_last=False, deep=deep).problems
    for kind in (Kind.OFFSET_INDEX, Kind.TIME_INDEX, Kind.TXN_INDEX):
        for file in folder.of(kind):
            report.problems += _check_beside(file, folder, report, deep=deep)
    for kind, advice in _READABLE.items():
        for file in folder.of(kind):
            report.problems += _check_readable(file, advice)
    for file in folder.of(Kind.EPOCHS):
        report.problems += _check_epochs(file, report)
    return report


def check_offsets_of(folder: Folder, reports: list[Report]) -> Iterator[Problem]:
    """The checkpoints of a log dir against the partitions in it."""
    ends = {
        partition: report.end_offset
        for report in reports
        if (partition := parse_partition_dir(os.path.basename(os.path.abspath(report.folder)))) is not None
    }
    for file in folder.of(Kind.OFFSETS):
        try:
            found = entries(file)
        except OttlaError:
            continue  # told already
        for row in found:
            end = ends.get(TopicPartition(row["topic"], row["partition"]))
            if end is not None and row["offset"] > end:
                what = f"{row['topic']}-{row['partition']} is at {row['offset']}, its log ends at {end}"
                yield Problem(file.path, "", what, problems.CORRECTED, serious=False)


_READABLE = {
    Kind.PRODUCERS: problems.REMOVE_SNAPSHOT,
    Kind.OFFSETS: problems.OF_NO_USE,
    Kind.TOPIC_ID: problems.RESTORE,
    Kind.META: problems.RESTORE,
    Kind.QUORUM: problems.RESTORE,
}


def _check_readable(file: LogFile, advice: str) -> list[Problem]:
    try:
        entries(file)
    except OttlaError as error:
        return [Problem(file.path, "", str(error).removeprefix(f"{file.path}: "), advice)]
    return []


def _check_beside(file: LogFile, folder: Folder, report: Report, *, deep: bool) -> list[Problem]:
    segment = next((segment for segment in report.segments if segment.file.offset == file.offset), None)
    if segment is None:
        if len(folder.files) == 1:  # given alone: the segment it is about lies beside it
            path = file.path[: -len(os.path.splitext(file.path)[1])] + ".log"
            if os.path.exists(path):
                log = LogFile(path, Kind.LOG, file.offset)
                alone = Report(report.folder, [check_segment(log, None, is_last=True, deep=deep)])
                return _check_beside(file, folder, alone, deep=deep)
        return [Problem(file.path, "", "its segment is not there", problems.OF_NO_USE, serious=False)]
    if segment.is_damaged:
        return []
    is_last = segment is report.segments[-1]
    match file.kind:
        case Kind.OFFSET_INDEX:
            return list(check_offset_index(file, segment, is_last=is_last))
        case Kind.TIME_INDEX:
            return list(check_time_index(file, segment, is_last=is_last))
        case _:
            return list(check_txn_index(file, segment, deep=deep))


def _check_epochs(file: LogFile, report: Report) -> list[Problem]:
    try:
        starts = [EpochStart(**row) for row in entries(file)]
    except OttlaError as error:
        return [Problem(file.path, "", str(error).removeprefix(f"{file.path}: "), problems.RESTORE)]
    return list(check_epochs(file, starts, report.segments))


def _gaps(report: Report) -> list[Problem]:
    gaps = [gap for segment in report.segments for gap in segment.gaps]
    if not gaps or any(segment.is_damaged for segment in report.segments):
        return []
    missing = sum(end - begin for begin, end in gaps)
    more = f" and {len(gaps) - 1} other stretches, {missing} offsets in all," if len(gaps) > 1 else ""
    what = f"offsets {gaps[0][0]} to {gaps[0][1] - 1}{more} are not there"
    return [Problem(report.folder, "", what, problems.GAP, serious=False)]
