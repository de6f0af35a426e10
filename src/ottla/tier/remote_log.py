"""What is known of one partition in the remote tier: a state machine over the records of `__remote_log_metadata`.

    (none) -> COPY_STARTED -> COPY_FINISHED -> DELETE_STARTED -> DELETE_FINISHED
                        \\______________________/

A state may be told twice; any other way is a record that came too late, of a leader of before, and does not count.
Segments that are wholly copied are found by epoch and offset: two leaders in a row may have copied the same offsets,
or have parted from each other, and only an epoch of the history that is asked for tells which of them is meant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final, NamedTuple
from uuid import UUID

from ottla.log.epochs import LeaderEpochs
from ottla.model.names import NO_OFFSET
from ottla.tier.remote_segment import RemoteSegment, SegmentState, SegmentUpdate

_NEXT: Final = {
    SegmentState.COPY_STARTED: (SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED),
    SegmentState.COPY_FINISHED: (SegmentState.DELETE_STARTED,),
    SegmentState.DELETE_STARTED: (SegmentState.DELETE_FINISHED,),
    SegmentState.DELETE_FINISHED: (),
}


class OutOfOrder(Exception):
    """A record that does not follow from what is known; nothing has changed."""


class _Span(NamedTuple):
    """The part of a segment that one epoch has."""

    start: int
    end: int
    id: UUID


class RemoteLog:
    def __init__(self) -> None:
        self.segments: dict[UUID, RemoteSegment] = {}
        self._by_epoch: dict[int, list[_Span]] = {}  # of those that can be read
        self._highest: dict[int, int] = {}  # by epoch, and it never goes back: what expired was copied once

    # -- records

    def begin(self, segment: RemoteSegment) -> None:
        """A segment that is new. Copies of the metadata may also tell one in any later state."""
        known = self.segments.get(segment.id)
        if known is not None and known.state is not segment.state:
            raise OutOfOrder(f"segment {segment.id} is {known.state.name} already")
        if segment.state is SegmentState.DELETE_FINISHED:
            return
        self.segments[segment.id] = segment
        if segment.state is SegmentState.COPY_FINISHED:
            self._enter(segment)

    def update(self, update: SegmentUpdate) -> None:
        known = self.segments.get(update.id)
        if known is None:
            raise OutOfOrder(f"segment {update.id} is not known, or is deleted")
        if update.state is known.state:
            return
        if update.state not in _NEXT[known.state]:
            raise OutOfOrder(f"segment {update.id} is {known.state.name} and cannot be {update.state.name}")
        changed = known._replace(
            state=update.state,
            broker_id=update.broker_id,
            event_ms=update.event_ms,
            custom=known.custom if update.custom is None else update.custom,
        )
        self.segments[update.id] = changed
        match update.state:
            case SegmentState.COPY_FINISHED:
                self._enter(changed)
            case SegmentState.DELETE_STARTED:
                self._leave(changed)
            case SegmentState.DELETE_FINISHED:
                del self.segments[update.id]

    def _enter(self, segment: RemoteSegment) -> None:
        for number, (epoch, start) in enumerate(segment.epochs):
            span = _Span(max(start, segment.start_offset), segment.last_offset_of(number), segment.id)
            # Others that hold the same stay: any of them may be deleted before the rest.
            spans = self._by_epoch.setdefault(epoch, [])
            spans.insert(bisect_right(spans, span.start, key=_start), span)
            self._highest[epoch] = max(self._highest.get(epoch, NO_OFFSET), span.end)

    def _leave(self, segment: RemoteSegment) -> None:
        for epoch, _ in segment.epochs:
            spans = [each for each in self._by_epoch.get(epoch, ()) if each.id != segment.id]
            if spans:
                self._by_epoch[epoch] = spans
            else:
                self._by_epoch.pop(epoch, None)

    # -- questions

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever copied, as far as is known."""
        return not self.segments and not self._highest

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The segment that has an offset as it was written in an epoch."""
        spans = self._by_epoch.get(epoch, [])
        for at in range(bisect_right(spans, offset, key=_start) - 1, -1, -1):
            if spans[at].end >= offset:
                return self.segments[spans[at].id]
        return None

    def find_in(self, lineage: LeaderEpochs, offset: int) -> RemoteSegment | None:
        return self.find(lineage.epoch_at(offset), offset)

    def first_from(self, lineage: LeaderEpochs, offset: int) -> int | None:
        """The first offset of a history, from one on, that some segment has; None for none."""
        found: list[int] = []
        for (epoch, start), following in zip_longest(lineage.starts, lineage.starts[1:]):
            for span in self._by_epoch.get(epoch, ()):
                first = max(span.start, start, offset)
                if first <= span.end and (following is None or first < following.start_offset):
                    found.append(first)
        return min(found, default=None)

    def highest_offset(self, epoch: int) -> int:
        """The last that was ever copied of an epoch."""
        return self._highest.get(epoch, NO_OFFSET)

    def copied_to(self, lineage: LeaderEpochs, end_offset: int) -> int:
        """The last offset of a history that is in the tier, or was until it expired; -1 for none."""
        starts = lineage.starts
        for number in range(len(starts) - 1, -1, -1):
            highest = self._highest.get(starts[number].epoch, NO_OFFSET)
            if highest != NO_OFFSET:
                epoch_end = starts[number + 1].start_offset if number + 1 < len(starts) else end_offset
                return min(highest, epoch_end - 1)
        return NO_OFFSET

    def readable(self) -> Iterator[RemoteSegment]:
        """All that can be read, by their start offsets."""
        return iter(self.listed((SegmentState.COPY_FINISHED,)))

    def listed(self, states: Iterable[SegmentState] = tuple(SegmentState)) -> list[RemoteSegment]:
        wanted = frozenset(states)
        found = [segment for segment in self.segments.values() if segment.state in wanted]
        return sorted(found, key=lambda segment: (segment.start_offset, segment.end_offset, segment.id))


def belongs_to(segment: RemoteSegment, lineage: LeaderEpochs, end_offset: int) -> bool:
    """Whether a segment is part of a history, as the leader's epochs tell it (they may have been cut at the start).

    One of a leader that was elected uncleanly, or whose last epochs were cut off, is not: nobody may read it.
    """
    ours = {start.epoch: number for number, start in enumerate(lineage.starts)}
    for number, (epoch, start) in enumerate(segment.epochs):
        at = ours.get(epoch)
        if at is None:
            if lineage.starts and epoch < lineage.starts[0].epoch:
                continue  # expired with the log's start
            return False
        epoch_end = lineage.starts[at + 1].start_offset if at + 1 < len(lineage.starts) else end_offset
        if segment.last_offset_of(number) >= epoch_end:
            return False
        if start < lineage.starts[at].start_offset and at > 0:
            return False
    return segment.end_offset < end_offset


def _start(span: _Span) -> int:
    return span.start
