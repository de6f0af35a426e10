"""What executors write of a micro-batch: record batches with a number, and their places in the order of a partition.

The driver lists them once, before any is sent. From then on each has its sequence, and whoever sends it sends the same
bytes there: a task that is tried again, or runs twice at the same time, cannot write anything else, or twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from zlib import crc32

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

_LARGEST_SEQUENCE: Final = 0x7FFFFFFF


class Parcel(NamedTuple):
    """A record batch that a task has made; its bytes are elsewhere."""

    task: int
    number: int
    topic: str
    partition: int
    records: int
    digest: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Listed(NamedTuple):
    sequence: int
    digest: int


class Changed(OttlaError):
    """Spark has computed rows again, and they are not those that were listed."""


class Manifest:
    """All parcels of a micro-batch. Sent to tasks."""

    def __init__(self, parcels: Iterable[Parcel]) -> None:
        self._listed: dict[tuple[int, int], Listed] = {}
        self.places: set[TopicPartition] = set()
        self.records = 0
        for parcel, sequence in in_sequence(parcels):
            self._listed[parcel.task, parcel.number] = Listed(sequence, parcel.digest)
            self.places.add(parcel.place)
            self.records += parcel.records

    def __len__(self) -> int:
        return len(self._listed)

    def sequence_of(self, parcel: Parcel) -> int:
        listed = self._listed.get((parcel.task, parcel.number))
        if listed is None or listed.digest != parcel.digest:
            raise Changed(
                f"{parcel.place}: rows were computed again after an executor was lost, and came out differently; "
                "the micro-batch has to begin anew"
            )
        return listed.sequence

    def check_all_sent(self, sent: Iterable[tuple[int, int]]) -> None:
        if missing := self._listed.keys() - set(sent):
            raise Changed(f"{len(missing)} of {len(self)} record batches of a micro-batch were not sent")


class InOrder(Protocol):
    """A record batch that has a place in the order of a micro-batch; sorted by it."""

    @property
    def place(self) -> TopicPartition: ...

    @property
    def records(self) -> int: ...

    def __lt__(self, other: Any, /) -> bool: ...


T = TypeVar("T", bound=InOrder)


def in_sequence(batches: Iterable[T]) -> Iterator[tuple[T, int]]:
    """With the sequence of its first record in its partition."""
    nexts: dict[TopicPartition, int] = defaultdict(int)
    for one in sorted(batches):
        yield one, nexts[one.place]
        nexts[one.place] = (nexts[one.place] + one.records) & _LARGEST_SEQUENCE


def lane_of(place: TopicPartition, lanes: int) -> int:
    """The task that sends all of a partition; neighbours go to different ones."""
    return (crc32(place.topic.encode()) + place.partition) % lanes
