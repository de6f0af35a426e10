"""Which leader epoch began at which offset: how a follower or a client finds where two histories part."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from ottla.model.names import NO_EPOCH, NO_OFFSET


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class LeaderEpochs:
    """Epochs and start offsets, both rising."""

    def __init__(self, starts: list[EpochStart] | None = None) -> None:
        self.starts = starts or []

    @property
    def latest(self) -> int:
        return self.starts[-1].epoch if self.starts else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """A batch of this epoch is at this offset; true if that is news. Entries it contradicts give way."""
        if epoch < 0 or (self.starts and epoch == self.latest and start_offset >= self.starts[-1].start_offset):
            return False
        while self.starts and (self.starts[-1].epoch >= epoch or self.starts[-1].start_offset >= start_offset):
            self.starts.pop()
        self.starts.append(EpochStart(epoch, start_offset))
        return True

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch not above the one asked for, and where it ends (KIP-279)."""
        if epoch == NO_EPOCH or not self.starts:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        if epoch > self.latest:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        at = bisect_right(self.starts, epoch, key=lambda start: start.epoch)
        if at == 0:  # older than anything known: it ended where our history begins
            return EpochEnd(epoch, self.starts[0].start_offset)
        return EpochEnd(self.starts[at - 1].epoch, self.starts[at].start_offset)

    def covers(self, offset: int) -> bool:
        return bool(self.starts) and self.starts[0].start_offset <= offset

    def epoch_at(self, offset: int) -> int:
        at = bisect_right(self.starts, offset, key=lambda start: start.start_offset)
        return self.starts[at - 1].epoch if at else NO_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        before = len(self.starts)
        while self.starts and self.starts[-1].start_offset >= end_offset:
            self.starts.pop()
        return len(self.starts) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Epochs that ended before the log's start go; the one that covers it now begins there."""
        at = bisect_right(self.starts, start_offset, key=lambda start: start.start_offset)
        if at == 0 or (at == 1 and self.starts[0].start_offset == start_offset):
            return False
        self.starts[:at] = [EpochStart(self.starts[at - 1].epoch, start_offset)]
        return True
