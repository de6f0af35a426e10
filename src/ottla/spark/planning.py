"""Which offsets the tasks of a query read. Plain functions of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.spark.tier_planning import InTier

SMALL: Final = 50_000
"""Offsets that are not worth a task of their own: one costs some 20 ms, in which a million records are read."""


TASK_BYTES: Final = 128 * 1024 * 1024
"""Of the tier, for a task: what Spark gives one of files (spark.sql.files.maxPartitionBytes)."""


class Range(NamedTuple):
    """Offsets of one partition, the last of them not included."""

    place: TopicPartition
    start: int
    end: int
    topic_id: UUID | None = None
    tier: InTier | None = None
    """If it is read straight from the object store; else from the brokers."""

    @property
    def size(self) -> int:
        return self.end - self.start


def tasks(ranges: Iterable[Range], min_tasks: int | None = None, max_records: int | None = None) -> list[list[Range]]:
    """What each task reads, in the order of offsets. Small ranges share a task, unless more tasks are asked for."""
    pieces = [piece for one in sorted(ranges) if one.size > 0 for piece in _split(one, max_records)]
    total = sum(piece.size for piece in pieces)
    if min_tasks is not None and len(pieces) < min_tasks and total:
        aim = total / min_tasks
        pieces = [part for piece in pieces for part in _split_into(piece, max(round(piece.size / aim), 1))]
    least = SMALL if min_tasks is None else min(SMALL, total // min_tasks)
    most = None if max_records is None else max(max_records, 1)
    together = [[piece] for piece in pieces] if max_records is not None else _joined(pieces, min_tasks)
    return _packed(together, least, most)


def _split(one: Range, most: int | None) -> list[Range]:
    return [one] if most is None else _split_into(one, ceil(one.size / most))


def _split_into(one: Range, parts: int) -> list[Range]:
    bounds = [one.start + one.size * n // parts for n in range(parts + 1)]
    return [one._replace(start=start, end=end) for start, end in pairwise(bounds) if end > start]


def _joined(pieces: Sequence[Range], min_tasks: int | None) -> list[list[Range]]:
    """Segments of the tier that follow each other are read together, so that small ones do not make a task each."""
    runs: list[list[Range]] = []
    for piece in pieces:
        before = runs[-1][-1] if runs else None
        follows = before is not None and before.place == piece.place and before.end == piece.start
        if before is not None and follows and before.tier is not None and piece.tier is not None:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    most = TASK_BYTES
    if min_tasks is not None:
        most = min(most, max(sum(map(_tier_bytes, pieces)) // min_tasks, 1))
    return [part for run in runs for part in _parts_of(run, most)]


def _parts_of(run: list[Range], most: int) -> list[list[Range]]:
    """Equally large ones, of about as many bytes at most, and of whole pieces."""
    total = sum(map(_tier_bytes, run))
    count = max(ceil(total / most), 1)
    parts: dict[int, list[Range]] = {}
    before = 0
    for piece in run:
        size = _tier_bytes(piece)
        middle = before + size / 2
        parts.setdefault(int(middle * count / max(total, 1)), []).append(piece)
        before += size
    return list(parts.values())


def _tier_bytes(piece: Range) -> int:
    """About; none where that is not known."""
    if piece.tier is None:
        return 0
    segment = piece.tier.segment
    return segment.size * piece.size // max(segment.end_offset - segment.start_offset + 1, 1)


def _packed(together: Sequence[list[Range]], least: int, most: int | None) -> list[list[Range]]:
    """What has `least` or more stays alone."""
    packed: list[list[Range]] = []
    small: list[Range] = []
    size = 0
    for pieces in together:
        own = sum(piece.size for piece in pieces)
        if own >= least:
            packed.append(pieces)
            continue
        if small and (size + own > least or (most is not None and size + own > most)):
            packed.append(small)
            small, size = [], 0
        small.extend(pieces)
        size += own
    if small:
        packed.append(small)
    return packed


def limited(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], most: int
) -> dict[TopicPartition, int]:
    """Ends so that about `most` offsets are read, of each partition in proportion to what waits there.

    A partition in which anything waits gets one at least, so that a small one is not starved by a large one.
    """
    waiting = {place: max(end[place] - start.get(place, 0), 0) for place in end}
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    found: dict[TopicPartition, int] = {}
    for place, size in waiting.items():
        share = most * size // total
        found[place] = end[place] if size == 0 else start.get(place, 0) + min(max(share, 1), size)
    return found
