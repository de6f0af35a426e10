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
    return _packed(pieces, least, most)


def _split(one: Range, most: int | None) -> list[Range]:
    return [one] if most is None else _split_into(one, ceil(one.size / most))


def _split_into(one: Range, parts: int) -> list[Range]:
    bounds = [one.start + one.size * n // parts for n in range(parts + 1)]
    return [one._replace(start=start, end=end) for start, end in pairwise(bounds) if end > start]


def _packed(pieces: Sequence[Range], least: int, most: int | None) -> list[list[Range]]:
    """Pieces of `least` or more stay alone."""
    packed: list[list[Range]] = []
    small: list[Range] = []
    size = 0
    for piece in pieces:
        if piece.size >= least:
            packed.append([piece])
            continue
        if small and (size + piece.size > least or (most is not None and size + piece.size > most)):
            packed.append(small)
            small, size = [], 0
        small.append(piece)
        size += piece.size
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
