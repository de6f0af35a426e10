"""What is known of producers when a log is opened: from the newest readable snapshot, and the batches after it.

A snapshot, in Kafka's format, has the last batch of each producer, but a producer may try again any of its last five.
Those that were not committed, and so not acknowledged, are looked up in the log. In Kafka such a producer is told
OUT_OF_ORDER_SEQUENCE_NUMBER after a clean stop, which for some clients is the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

from ottla.env.files import read_file
from ottla.env.ports import Disk
from ottla.log.paths import SNAPSHOT_SUFFIX, offset_name
from ottla.log.producers import (
    CorruptSnapshot,
    ProducerEntry,
    Producers,
    read_snapshot,
    replace_if_other,
    write_snapshot,
)
from ottla.log.scan import ScannedBatch, end_marker, good_batches
from ottla.log.segment import Segment

_log = logging.getLogger("ottla.log")
_LOOKED_UP: Final = 50_000  # records, at most: five large batches


class ProducerLoader:
    """`committed` is up to where records were acknowledged when the log was last open, if that is known."""

    def __init__(self, disk: Disk, folder: str, name: str, committed: int | None = None) -> None:
        self.state = Producers(name)
        self.written: list[str] = []
        """Snapshots that were made again, for the next flush to sync."""
        self._disk = disk
        self._folder = folder
        self._committed = committed

    def load(self, segments: list[Segment], upto: int) -> None:
        """The state at an offset."""
        self._load_snapshot(segments, upto)
        self._replay(segments, upto)

    def _load_snapshot(self, segments: list[Segment], upto: int) -> None:
        """The newest at or below an offset; those that cannot be read are removed."""
        first = segments[0].base_offset if segments else upto
        for offset, path in reversed(self._snapshots()):
            if not first <= offset <= upto:
                continue
            try:
                self.state.load(read_snapshot(read_file(self._disk, path)), offset)
                self._look_up_before(offset, segments)
                return
            except CorruptSnapshot as error:
                _log.warning("%s: %s; taking an older one", path, error)
                self._disk.remove(path)
        self.state.clear(first)

    def _look_up_before(self, end: int, segments: list[Segment]) -> None:
        """The batches of each producer that were not committed, before its last one."""
        if self._committed is None or not self.state.entries:
            return
        found: dict[int, ProducerEntry] = {}
        for segment in segments:
            for batch in _batches(segment, max(self._committed, end - _LOOKED_UP), end):
                header = batch.header
                if header.producer_id >= 0 and not header.is_control:
                    entry = found.setdefault(header.producer_id, ProducerEntry(header.producer_id))
                    entry.note(header, header.base_offset, header.max_timestamp)
        for producer_id, entry in found.items():
            known = self.state.entries.get(producer_id)
            if known is None or not known.batches or known.epoch != entry.epoch:
                continue
            if known.batches[-1].last_offset == entry.batches[-1].last_offset:
                known.batches = entry.batches

    def _replay(self, segments: list[Segment], upto: int) -> None:
        """Catches up from the snapshot to an offset through batches that are known to be good."""
        start = self.state.end_offset
        for segment, following in zip_longest(segments, segments[1:]):
            if segment.base_offset >= upto or start >= upto:
                break
            if following is not None and following.base_offset <= start:
                continue
            if segment.base_offset > start:
                self.keep_snapshot(segment.base_offset)
            for batch in _batches(segment, start, upto):
                self.note(batch, None)
        self.state.end_offset = upto

    def note(self, batch: ScannedBatch, rebuilding: Segment | None) -> None:
        """A batch is there; what it aborts is entered into the index of a segment that is being rebuilt."""
        header = batch.header
        if header.producer_id < 0:
            return
        if not header.is_control:
            self.state.note(header, header.base_offset, header.max_timestamp)
        elif (marker := end_marker(batch)) is not None:
            aborted = self.state.note_end(header, marker, header.base_offset)
            if aborted is not None and rebuilding is not None:
                rebuilding.txn_index.append(aborted)

    # -- snapshots

    def _path(self, offset: int) -> str:
        return f"{self._folder}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def _snapshots(self) -> list[tuple[int, str]]:
        return [
            (int(name[: -len(SNAPSHOT_SUFFIX)]), f"{self._folder}/{name}")
            for name in self._disk.list_dir(self._folder)
            if name.endswith(SNAPSHOT_SUFFIX) and name[: -len(SNAPSHOT_SUFFIX)].isdigit()
        ]

    def has_snapshot(self, offset: int) -> bool:
        """One that can be read."""
        path = self._path(offset)
        try:
            if self._disk.exists(path):
                read_snapshot(read_file(self._disk, path))
                return True
        except CorruptSnapshot:
            pass
        return False

    def keep_snapshot(self, offset: int) -> None:
        """The state is that at the start of a segment: once those before it are deleted nothing else can tell."""
        path = self._path(offset)
        if replace_if_other(self._disk, path, write_snapshot(self.state.entries.values())):
            self.written.append(path)

    def remove_beyond(self, end_offset: int) -> None:
        """Those of a history that was cut off."""
        for offset, path in self._snapshots():
            if offset > end_offset:
                self._disk.remove(path)

    def remove_strays(self, segments: list[Segment], end_offset: int) -> None:
        """Those at the start of a segment stay, and the newest of all; any beyond the end is of a lost history."""
        bases = {segment.base_offset for segment in segments}
        snapshots = self._snapshots()
        newest = max((offset for offset, _ in snapshots if offset <= end_offset), default=-1)
        for offset, path in snapshots:
            if offset > end_offset or (offset != newest and offset not in bases):
                self._disk.remove(path)


def _batches(segment: Segment, start: int, end: int) -> Iterator[ScannedBatch]:
    """Of a segment whose batches are known to be good, as far as they are in a range."""
    if segment.base_offset >= end or start >= end:
        return
    entry = segment.offset_index.lookup(start)
    position = entry[1] if entry is not None else 0
    for batch in good_batches(segment.file_for(), position, segment.size, segment.base_offset):
        if batch.header.base_offset >= end:
            return
        if batch.header.last_offset >= start:
            yield batch
