"""Commits that differ from one before only in their offsets: a member commits for the same partitions again and again.

What was found out about the first of them is kept: who commits for which partitions, the keys of its records, and the
answer if all is well. Whether it may, and whether the topic is still there, is looked at each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from ottla.broker.apis.offset_commit_format import BY_ID, FLEXIBLE, Request, usual_rows, write_all_fine
from ottla.coordinator.group.offsets import Member, Places, places_of
from ottla.metadata.image import MetadataImage, TopicImage

_MOST: Final = 2000
_LONGEST: Final = 512  # bytes of what is kept by
_ONE: Final = b"\x02"  # topic, in the way of flexible versions
_START: Final = Struct(">ii")  # size, correlation id


class Again(NamedTuple):
    request: Request
    member: Member
    places: Places
    topic: TopicImage
    image: MetadataImage
    """In which the topic was found."""
    numbers: tuple[int, ...]
    size: int
    answer: bytes
    """After the correlation id."""

    def all_fine(self, correlation_id: int) -> bytes:
        return _START.pack(len(self.answer) + 4, correlation_id) + self.answer


class Repeated(NamedTuple):
    again: Again
    offsets: Sequence[int]
    epochs: Sequence[int]


class CommitsBefore:
    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Again] = {}

    def find(self, version: int, data: bytes, image: MetadataImage) -> Repeated | None:
        start = _rows_start(version, data)
        again = self._known.get((version, data[:start]))
        if again is None or again.image is not image or len(data) != again.size:
            return None
        rows = usual_rows(data[start:-2])
        if rows is None or data[-2] or data[-1]:
            return None
        numbers, offsets, epochs = zip(*rows, strict=True)
        return Repeated(again, offsets, epochs) if numbers == again.numbers else None

    def keep(self, version: int, data: bytes, request: Request, image: MetadataImage, topic: TopicImage) -> None:
        """One that was read as most are, for partitions of one topic that are all there."""
        start = _rows_start(version, data)
        if not 0 < start <= _LONGEST or not request.topics[0].rows:
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        numbers = tuple(number for number, _, _ in request.topics[0].rows)
        self._known[version, data[:start]] = Again(
            request,
            Member(request.group_id, request.member_id, request.instance_id, request.generation),
            places_of(request.group_id, topic.name, topic.id, numbers),
            topic,
            image,
            numbers,
            len(data),
            write_all_fine(version, 0, request.topics)[8:],
        )


def _rows_start(version: int, data: bytes) -> int:
    """Where the rows of the only topic begin; 0 if that is not to be seen. What comes before says it all by itself."""
    if version < FLEXIBLE:
        return 0
    try:
        at = data[0] + 4  # the group; its generation
        at += data[at]  # the member
        at += data[at] or 1  # its instance, or none
        if data[at : at + 1] != _ONE:
            return 0
        at += 17 if version >= BY_ID else 1 + data[at + 1]
        return at + 1
    except IndexError:
        return 0
