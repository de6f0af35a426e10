"""Reading from a row of segments: where the batches from an offset on lie, and which transactions were aborted."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from ottla.env.ports import Readable
from ottla.log.index import NotInMemory
from ottla.log.rebuild import rebuild_indexes
from ottla.log.segment import CorruptIndex, DamagedLog, Place, Segment
from ottla.log.txn_index import AbortedTxn
from ottla.log.unsynced import Unsynced
from ottla.model.config.topic import LogConfig

_log = logging.getLogger("ottla.log")
_last_offset: Final = attrgetter("last_offset")


class LogRead(NamedTuple):
    """A range of a segment's file; at its start a batch begins, at its end one may be cut.

    `data` are its bytes, where they are at hand.
    """

    file: Readable
    position: int
    size: int
    data: bytes | None = None


class OffsetOutOfRange(Exception):
    pass


class BeforeLocalStart(Exception):
    """The offset is part of the log, but its segment is in the remote tier only."""


class ReadableLog:
    """The part of a log that readers use; `_bases` are the base offsets of `segments`."""

    def __init__(
        self, config: LogConfig, segments: list[Segment], start_offset: int, end_offset: int, unsynced: Unsynced
    ) -> None:
        self.config = config
        self.segments = segments
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._bases = [segment.base_offset for segment in segments]
        self._unsynced = unsynced
        self._hopeless: set[int] = set()  # segments whose indexes are no better for being rebuilt

    @property
    def local_start_offset(self) -> int:
        """Where the log begins on this disk; what is before it, from the log's start on, is in the remote tier."""
        return max(self.start_offset, self._bases[0])

    @property
    def active(self) -> Segment:
        return self.segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)

    def segment_for(self, offset: int) -> int:
        """Position in `segments` of the one that an offset belongs to."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one: bool) -> LogRead | None:
        """Batches from `offset` up to, not including, `upper_offset`; None if there are none to give.

        Raises OffsetOutOfRange, BeforeLocalStart, NotInMemory where a header must come from the disk first, and
        DamagedLog.
        """
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRange
        if offset < self._bases[0]:
            raise BeforeLocalStart
        if offset >= upper_offset:
            return None
        for number in range(self.segment_for(offset), len(self.segments)):
            segment = self.segments[number]
            if segment.base_offset >= upper_offset:
                return None
            is_last = number + 1 == len(self.segments)
            if is_last and upper_offset == self.end_offset and (position := segment.boundary(offset)) is not None:
                size = segment.size - position
                if 0 < size <= max_bytes:  # all that came since someone last read to the end
                    segment.read_to_end(upper_offset)
                    at_hand = segment.tail if segment.tail_position == position and len(segment.tail) == size else None
                    return LogRead(segment.file_for(), position, size, at_hand)
            place = self._find(segment, offset)
            if place is None:
                continue  # compaction left nothing at or after the offset in this segment
            end = segment.size
            if upper_offset < (self.end_offset if is_last else self._bases[number + 1]):
                limit = self._find(segment, upper_offset)
                end = limit.position if limit is not None else end
            if place.position >= end:
                return None
            size = min(max(max_bytes, place.size if at_least_one else 0), end - place.position)
            if size < place.size:
                return None  # Java's consumer gives up on an answer that begins with part of a batch
            if is_last and place.position + size == segment.size:
                segment.read_to_end(self.end_offset)
            return LogRead(segment.file_for(), place.position, size)
        return None

    def _find(self, segment: Segment, offset: int) -> Place | None:
        try:
            return segment.find(offset)
        except CorruptIndex:
            return self.with_sound_indexes(segment, lambda: segment.find(offset))

    def with_sound_indexes(self, segment: Segment, search: Callable[[], Place | None]) -> Place | None:
        try:
            return search()
        except CorruptIndex as error:
            if segment.base_offset in self._hopeless:
                raise DamagedLog(str(error)) from error
            _log.warning("%s; rebuilding the indexes of this segment", error)
            rebuild_indexes(segment, self.config)
            for index in (segment.offset_index, segment.time_index):
                self._unsynced.file_replaced(index.entries.path)
        try:
            return search()
        except CorruptIndex as error:
            self._hopeless.add(segment.base_offset)
            raise DamagedLog(str(error)) from error

    def aborted_between(self, first: int, end: int) -> list[AbortedTxn]:
        """Aborted transactions that touch a range of offsets, for a reader of committed data."""
        found: list[AbortedTxn] = []
        for segment in self.segments[self.segment_for(first) :]:
            aborted = segment.txn_index.aborted
            for txn in islice(aborted, bisect_left(aborted, first, key=_last_offset), None):  # in order of their ends
                if txn.first_offset < end:
                    found.append(txn)
                if txn.last_stable_offset >= end:
                    return found
        return found

    def aborted_in(self, read: LogRead, first: int, upper_offset: int) -> list[AbortedTxn]:
        """Those that touch what was read, from an offset on: of all up to the upper one there may be very many.

        As in Kafka, some that come after it may be among them: where what was read ends is known by the index only.
        Raises NotInMemory.
        """
        segments = self.segments[self.segment_for(first) :]
        if not any(segment.txn_index.aborted for segment in segments):
            return []
        for segment in segments:
            if segment.file_for() is read.file:
                following = segment.offset_index.first_from(read.position + read.size)
                if following is not None:
                    return self.aborted_between(first, min(following, upper_offset))
                break
        return self.aborted_between(first, upper_offset)

    def batches_from(self, offset: int) -> Iterator[bytes]:
        """Whole batches from an offset to the end, by blocking reads: for the quorum, loading and tools."""
        for segment in self.segments[self.segment_for(offset) :]:
            position = self._begin(segment, offset) if offset > segment.base_offset else 0
            while (header := segment.header_at(position)) is not None:
                if header.last_offset >= offset:
                    yield segment.file_for().pread(header.size, position)
                position += header.size

    def _begin(self, segment: Segment, offset: int) -> int:
        """A place where a batch begins, near the offset and not after it."""
        try:
            place = self._find(segment, offset)
        except (NotInMemory, DamagedLog):
            return 0
        return segment.size if place is None else place.position
