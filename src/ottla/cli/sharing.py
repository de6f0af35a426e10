"""Reading as a member of a group: which partitions are ours, where to begin in them, and what has been printed.

Offsets are stored with librdkafka only after their records were printed, and it commits what is stored: every second,
before a partition goes to another member, and at the end. So what was not printed is read again by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ottla.cli.reading_range import Partition, Range, first_offsets

_EVERY_MS: Final = 1000
_NONE_FOR_S: Final = 5.0


def member_properties(wanted: Range, *, commits: bool) -> list[tuple[str, str]]:
    reset = "earliest" if wanted.start == "beginning" and wanted.from_ms is None else "latest"
    return [
        ("enable.auto.commit", "true" if commits else "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.commit.interval.ms", str(_EVERY_MS)),
        ("auto.offset.reset", reset),
    ]


class Sharing:
    def __init__(self, consumer: Any, wanted: Range, timeout_s: float, *, commits: bool) -> None:
        self._mine: list[Partition] | None = None
        self._none_since = 0.0
        self._consumer = consumer
        self._wanted = wanted
        self._timeout_s = timeout_s
        self._commits = commits
        self._taken: dict[Partition, int] = {}
        self._printed: dict[Partition, int] = {}

    def join(self, topics: Sequence[str], own: Mapping[str, str]) -> None:
        strategy = own.get("partition.assignment.strategy", "")
        incremental = "cooperative" in strategy or own.get("group.protocol") == "consumer"

        def assigned(consumer: Any, partitions: list[Any]) -> None:
            self._mine = sorted({*(self._mine or ()), *((part.topic, part.partition) for part in partitions)})
            self._none_since = time.monotonic()
            begin = self._with_first_offsets(partitions)
            if incremental:
                consumer.incremental_assign(begin)
            else:
                consumer.assign(begin)

        def given_up(consumer: Any, partitions: list[Any]) -> None:
            gone = {(part.topic, part.partition) for part in partitions}
            self._mine = [place for place in self._mine or () if place not in gone] or None  # more may come at once
            for place in gone:
                self._taken.pop(place, None)
                self._printed.pop(place, None)

        self._consumer.subscribe(list(topics), on_assign=assigned, on_revoke=given_up, on_lost=given_up)

    @property
    def mine(self) -> list[Partition] | None:
        """Our partitions; None until the group has said which. Only after a while is none at all taken for an answer:

        who leads the group may not have heard of a new topic yet.
        """
        is_early = not self._mine and time.monotonic() - self._none_since < _NONE_FOR_S
        return None if is_early else self._mine

    def take(self, place: Partition, next_offset: int) -> None:
        """A record that is about to be printed."""
        self._taken[place] = next_offset

    def reach(self, place: Partition, end: int) -> None:
        """The end of a partition of which something was printed."""
        if place in self._taken or place in self._printed:
            self._taken[place] = end

    def printed(self) -> None:
        """All that was taken has been printed."""
        from confluent_kafka import KafkaException, TopicPartition

        if not self._commits:
            return
        for (topic, partition), offset in self._taken.items():
            with suppress(KafkaException):  # it has gone to another member, who will read it again
                self._consumer.store_offsets(offsets=[TopicPartition(topic, partition, offset)])
        self._printed |= self._taken
        self._taken.clear()

    def _with_first_offsets(self, partitions: list[Any]) -> list[Any]:
        """Where nothing is committed and the start is not one that librdkafka knows itself."""
        wanted = self._wanted
        if wanted.from_ms is None and wanted.start in ("beginning", "end"):
            return partitions
        stored = self._consumer.committed(partitions, timeout=self._timeout_s) if partitions else []
        new = [(part.topic, part.partition) for part in stored if part.offset < 0]
        begin = [part for part in stored if part.offset >= 0]
        return [*begin, *first_offsets(self._consumer, new, wanted, self._timeout_s)]
