"""How much is read ahead for whom: little for one who has just come, more for one who reads on, and all within a limit.

Who reads on is known by where he begins: in the chunk where a read ended.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final
from uuid import UUID

from ottla.tier.manifest import CHUNK_BYTES
from ottla.tier.remote_segment import RemotePartition, RemoteSegment

FIRST: Final = 2  # chunks
MOST: Final = 32
_RUN: Final = 4
_KNOWN: Final = 1000
_RECENT: Final = 32  # reads


def chunks_in(segment: RemoteSegment) -> int:
    return -(-segment.size // CHUNK_BYTES)


def run_of(window: int) -> int:
    """How many chunks come by one request where so many are read ahead. They are asked for when all of them are in
    reach, and the other half of the window is there or under way meanwhile."""
    return max(min(_RUN, window // 2), 1)


class ReadAhead:
    def __init__(self, most_bytes: Callable[[], int]) -> None:
        """`most_bytes` is what may be kept. Three quarters of it are for what is read ahead: with more, what comes
        would push out what has not been asked for yet."""
        self._most_bytes = most_bytes
        self._windows: OrderedDict[tuple[UUID, int], int] = OrderedDict()
        self._recent: deque[tuple[UUID, int]] = deque(maxlen=_RECENT)
        self._batches: OrderedDict[RemotePartition, int] = OrderedDict()

    def read(self, segment: RemoteSegment, first: int, last: int) -> int:
        """Somebody has read from a chunk to another one: how many are read ahead, from that one on."""
        self._recent.append((segment.of.topic_id, segment.of.partition))
        share = self._most_bytes() * 3 // 4 // CHUNK_BYTES // len(set(self._recent))
        window = min(max(2 * self._windows.get((segment.id, first), 0), FIRST), max(share, 1), MOST)
        self._note(segment, last, window)
        return window

    def window(self, segment: RemoteSegment, last: int) -> int:
        """What was said of a read that ended in a chunk."""
        return self._windows.get((segment.id, last), 0)

    def goes_on_in(self, following: RemoteSegment, window: int) -> None:
        """A window reaches into a segment: who begins there reads on."""
        self._note(following, 0, window)

    def _note(self, segment: RemoteSegment, chunk: int, window: int) -> None:
        self._windows[segment.id, chunk] = window
        self._windows.move_to_end((segment.id, chunk))
        if len(self._windows) > _KNOWN:
            self._windows.popitem(last=False)

    # -- where an offset may be

    def note_batch(self, of: RemotePartition, size: int) -> None:
        self._batches[of] = size
        self._batches.move_to_end(of)
        if len(self._batches) > _KNOWN:
            self._batches.popitem(last=False)

    def guessed(self, segment: RemoteSegment, offset: int) -> range:
        """The chunks that a read from an offset needs, if records are about equally large: its batch begins before it
        and ends after it."""
        share = (offset - segment.start_offset) / max(segment.end_offset - segment.start_offset + 1, 1)
        position, batch = int(share * segment.size), min(self._batches.get(segment.of, CHUNK_BYTES), CHUNK_BYTES)
        around = batch + CHUNK_BYTES // 16
        last = min(position + around, segment.size - 1)
        return range(max(position - around, 0) // CHUNK_BYTES, last // CHUNK_BYTES + 1)
