"""Where a read begins and ends, as options say it, and offsets as Spark keeps them.

Spark writes offsets of a stream to its checkpoint and its progress, as JSON in the shape of the official source:
`{"events": {"0": 17, "1": 23}}`. Beside the topics stands `"@ids"`, by which a topic that was deleted and made anew is
not taken for the one that was read, and in what is shown as the latest offset `"@behind"`, what waits when the batch is
done. (A topic's name has no @.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final
from uuid import UUID

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.spark.cluster import EARLIEST, LATEST, Topic

Offsets = dict[TopicPartition, int]
IDS: Final = "@ids"
BEHIND: Final = "@behind"
_NO_TOPICS: Final = (IDS, BEHIND)


class Kind(Enum):
    EVERYWHERE = "earliest or latest of each partition"
    OFFSETS = "an offset for each partition"
    TIME = "one time for all partitions"
    TIMES = "a time for each partition"


@dataclass(frozen=True, slots=True)
class Positions:
    option: str
    kind: Kind
    everywhere: int = EARLIEST
    """EARLIEST, LATEST or a time."""
    each: tuple[tuple[TopicPartition, int], ...] = ()

    def of(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        """By partition; OttlaError if those named are not those that are there."""
        if self.kind in (Kind.EVERYWHERE, Kind.TIME):
            return dict.fromkeys(places, self.everywhere)
        named = dict(self.each)
        if missing := [str(place) for place in places if place not in named]:
            raise OttlaError(
                f"{self.option} must name every partition that is read, and {_some(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing"
                + ("; -2 is the earliest offset, -1 the latest" if self.kind is Kind.OFFSETS else "")
            )
        there = set(places)
        if more := [str(place) for place in named if place not in there]:
            raise OttlaError(f"{self.option} names {_some(more)}, which is not among what is read")
        return {place: named[place] for place in places}


def parsed_positions(option: str, text: str, *, batch: bool, ending: bool) -> Positions:
    """`earliest`, `latest` or JSON."""
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        value = EARLIEST if word == "earliest" else LATEST
        _check_end(option, word, value, batch=batch, ending=ending)
        return Positions(option, Kind.EVERYWHERE, value)
    if not word.startswith("{"):
        raise OttlaError(f'{option} is earliest, latest, or JSON like {{"events": {{"0": 17}}}}, not {text!r}')
    each = by_partition(option, text)
    for place, offset in each.items():
        if offset < EARLIEST:
            raise OttlaError(f"{option}: {offset} is no offset of {place}")
        _check_end(option, f"{offset} for {place}", offset, batch=batch, ending=ending)
    return Positions(option, Kind.OFFSETS, each=tuple(each.items()))


def _check_end(option: str, said: str, value: int, *, batch: bool, ending: bool) -> None:
    if ending and value == EARLIEST:
        raise OttlaError(f"{option} cannot be {said}: nothing ends at the earliest offset")
    if batch and not ending and value == LATEST:
        raise OttlaError(f"{option} cannot be {said}: a batch query that begins at the latest offset reads nothing")


def by_partition(option: str, text: str) -> dict[TopicPartition, int]:
    """JSON like {"events": {"0": 17}}; also as it stands in a progress event."""
    try:
        read = json.loads(text)
        if not isinstance(read, dict):
            raise ValueError("it is no object")
        return {
            TopicPartition(topic, int(number)): _whole(value)
            for topic, numbers in read.items()
            if topic not in _NO_TOPICS
            for number, value in numbers.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise OttlaError(f'{option} must be JSON like {{"events": {{"0": 17, "1": 23}}}}: {error}') from None


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


# -- what Spark keeps


def to_spark(offsets: Mapping[TopicPartition, int], ids: Mapping[str, UUID | None]) -> dict[str, Any]:
    """Always in the same order: Spark compares the text."""
    told: dict[str, Any] = {}
    for place in sorted(offsets):
        told.setdefault(place.topic, {})[str(place.partition)] = offsets[place]
    known = {topic: str(ids[topic]) for topic in sorted(told) if ids.get(topic) is not None}
    return told | ({IDS: known} if known else {})


def from_spark(told: Mapping[str, Any]) -> tuple[Offsets, dict[str, UUID | None]]:
    """Also what the official source has written, in which there are no ids."""
    ids: dict[str, UUID | None] = {topic: UUID(text) for topic, text in told.get(IDS, {}).items()}
    offsets = {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in told.items()
        if topic not in _NO_TOPICS
        for number, offset in numbers.items()
    }
    return offsets, ids


def ids_of(topics: Mapping[str, Topic]) -> dict[str, UUID | None]:
    return {name: topic.id for name, topic in topics.items()}
