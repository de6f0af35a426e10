"""Which records `ottla consume` reads: from where on in each partition, and up to where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from ottla.cli.output import note
from ottla.cli.times import parse_time
from ottla.model.near_miss import did_you_mean

Partition = tuple[str, int]
STARTS: Final = ("beginning", "end", "stored")


@dataclass(frozen=True, slots=True)
class Range:
    start: int | str = "end"
    """beginning, end, stored, or an offset; a negative one counts from the end."""
    from_ms: int | None = None
    until_ms: int | None = None


def parse_range(
    offsets: Sequence[str], from_ms: int | None, until_ms: int | None, now_ms: int, *, exit_at_end: bool = False
) -> Range:
    """What -o says, possibly several times as with kcat: a start, s@TIME, e@TIME; and the options for times.

    To end somewhere makes sense only from before it: then the default is the beginning, as it always is for kcat.
    """
    start: int | str | None = None
    for text in offsets:
        if text.startswith(("s@", "e@")):
            moment = _time(text, now_ms)
            if text[0] == "s":
                from_ms = _once(from_ms, moment, "start")
            else:
                until_ms = _once(until_ms, moment, "end")
        else:
            start = _once(start, parse_start(text), "start")
    if from_ms is not None and start is not None:
        raise click.UsageError("an offset and a time to start from exclude each other")
    if from_ms is not None and until_ms is not None and until_ms < from_ms:
        raise click.UsageError("the end is before the start")
    if start is None:
        has_end = exit_at_end or until_ms is not None
        start = "beginning" if has_end and from_ms is None else "end"
    return Range(start, from_ms, until_ms)


def parse_start(text: str) -> int | str:
    if text in STARTS:
        return text
    try:
        return int(text)
    except ValueError:
        close = did_you_mean(text, STARTS)
        raise click.UsageError(
            f"-o {text}: must be beginning, end, stored, a number, s@TIME or e@TIME{close}"
        ) from None  # fmt: skip


def _once(before: Any, value: Any, what: str) -> Any:
    if before is not None:
        raise click.UsageError(f"there can be one {what} only")
    return value


def _time(text: str, now_ms: int) -> int:
    try:
        return parse_time(text[2:], now_ms)
    except ValueError as error:
        raise click.UsageError(f"-o {text}: {error}") from None


def first_offsets(consumer: Any, partitions: Sequence[Partition], wanted: Range, timeout_s: float) -> list[Any]:
    """The partitions with the offsets to start from, as confluent-kafka assigns them."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, TopicPartition

    if wanted.from_ms is not None:
        return _offsets_for_time(consumer, partitions, wanted.from_ms, timeout_s)
    if wanted.start == "stored":
        stored = consumer.committed([TopicPartition(*part) for part in partitions], timeout=timeout_s)
        for part in stored:
            if part.offset == OFFSET_INVALID:
                note(f"No offset is stored for {part.topic}-{part.partition}: reading it from the end.")
                part.offset = OFFSET_END
        return list(stored)

    def first(topic: str, partition: int) -> int:
        if isinstance(wanted.start, str):
            return int(OFFSET_BEGINNING if wanted.start == "beginning" else OFFSET_END)
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
        if wanted.start < 0:
            return int(max(low, high + wanted.start))
        if not low <= wanted.start <= high:  # librdkafka would go to the end without a word
            nearest = "beginning" if wanted.start < low else "end"
            note(f"{topic}-{partition} has offsets {low} to {high - 1}: reading it from its {nearest}.")
        return int(min(max(low, wanted.start), high))

    return [TopicPartition(*part, first(*part)) for part in partitions]


def end_offsets(
    consumer: Any, partitions: Sequence[Partition], until_ms: int, timeout_s: float
) -> dict[Partition, int]:
    """Where each partition's first record at or after a time is; its end if there is none."""
    ends = {}
    for part in _offsets_for_time(consumer, partitions, until_ms, timeout_s):
        if part.offset < 0:
            _, part.offset = consumer.get_watermark_offsets(part, timeout=timeout_s)
        ends[part.topic, part.partition] = part.offset
    return ends


def _offsets_for_time(consumer: Any, partitions: Sequence[Partition], ms: int, timeout_s: float) -> list[Any]:
    from confluent_kafka import KafkaException, TopicPartition

    found = consumer.offsets_for_times([TopicPartition(*part, ms) for part in partitions], timeout=timeout_s)
    for part in found:
        if part.error is not None:
            raise KafkaException(part.error)
    return list(found)
