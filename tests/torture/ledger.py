"""Every acknowledged record, and whether it is where it was said to be: nothing lost, nothing twice, nothing changed.

Two loads write to three partitions each, with acks=all: one idempotent, one not. A reader follows both through whatever
happens and keeps what it saw. What it has read once must be there to the end, so a last look reads everything anew. A
group's offset is a register: what a commit was acknowledged for is never taken back.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.cluster.clients import QUIET, a_name
from tests.kill.load import Place, Writer, first_break, number_in
from tests.waiting import attempts

from ottla.testing.process_cluster import ProcessCluster

PARTITIONS: Final = 3
_AFTER_ALL_S: Final = 120.0


class Seen:
    """What a consumer without a group finds in a topic, from the start on."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.numbers: list[list[int]] = [[] for _ in range(PARTITIONS)]
        settings = {"bootstrap.servers": bootstrap, "group.id": a_name("reader"), "enable.auto.commit": False}
        self._consumer = Consumer(settings | QUIET | {"auto.offset.reset": "error", "check.crcs": True})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])

    def read_up_to(self, ends: list[int]) -> None:
        """At least; a record beyond the high watermark is nobody's to read."""
        for _ in attempts(lambda: f"{self.topic} is read up to {self._ends()}, not {ends}", within_s=_AFTER_ALL_S):
            if all(here >= end for here, end in zip(self._ends(), ends, strict=True)):
                return
            for message in self._consumer.consume(5000, 0.2):
                assert message.error() is None, message.error()
                numbers, offset = self.numbers[message.partition() or 0], message.offset()
                assert offset == len(numbers), (
                    f"{self.topic}-{message.partition()}: {offset} follows {len(numbers) - 1}"
                )
                numbers.append(number_in(message.value()))

    def _ends(self) -> list[int]:
        return [len(numbers) for numbers in self.numbers]

    def close(self) -> None:
        self._consumer.close()


class Load:
    """A writer, and what was seen of its records."""

    def __init__(self, cluster: ProcessCluster, topic: str, rate: int, *, once: bool) -> None:
        self.once = once
        self.checked = 0
        self.seen = Seen(cluster.bootstrap, topic)
        self.writer = Writer(
            cluster.bootstrap, topic, PARTITIONS, rate, idempotent=once, codec="none" if once else "lz4"
        )
        self._cluster = cluster
        self._in_order_up_to = [0] * PARTITIONS
        self.writer.start()

    def check(self) -> None:
        """All that was acknowledged since the last check, and until this moment."""
        fresh, self.writer.acknowledged = self.writer.acknowledged, {}
        ends = [0] * PARTITIONS
        for place in fresh:
            ends[place.partition] = max(ends[place.partition], place.offset + 1)
        self.seen.read_up_to(ends)
        self._compare(fresh)
        self.checked += len(fresh)
        assert not self.writer.failed, f"{len(self.writer.failed)} writes failed: {self.writer.failed[:3]}"

    def _compare(self, fresh: dict[Place, int]) -> None:
        wrong = {place: number for place, number in fresh.items() if self._at(place) != number}
        assert not wrong, f"{len(wrong)} acknowledged records of {self.seen.topic} are lost: {list(wrong.items())[:5]}"
        for number, numbers in enumerate(self.seen.numbers if self.once else ()):
            before = self._in_order_up_to[number]
            assert numbers[before:] == list(range(before, len(numbers))), first_break(numbers)
            self._in_order_up_to[number] = len(numbers)

    def _at(self, place: Place) -> int | None:
        numbers = self.seen.numbers[place.partition]
        return numbers[place.offset] if place.offset < len(numbers) else None

    def finish(self) -> int:
        """All is acknowledged, and all is there; how many are there twice. Of an idempotent producer none may be."""
        self.writer.finish()
        self.check()
        again = Seen(self._cluster.bootstrap, self.seen.topic)
        again.read_up_to([len(numbers) for numbers in self.seen.numbers])
        for number, numbers in enumerate(self.seen.numbers):
            assert again.numbers[number][: len(numbers)] == numbers, f"{self.seen.topic}-{number} has changed"
        for numbers, produced in zip(again.numbers, self.writer.produced, strict=True):
            # one that is not idempotent may also be overtaken by itself, when a leader that was paused goes on
            found = numbers if self.once else sorted(set(numbers))
            assert found == list(range(produced)), first_break(found)
        again.close()
        self.seen.close()
        return sum(len(numbers) for numbers in again.numbers) - self.checked


class Register:
    """A group's committed offset, written again and again."""

    def __init__(self, cluster: ProcessCluster, topic: str) -> None:
        self.attempted = self.committed = 0
        self._topic = topic
        self._settings: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": a_name("register"),
            **QUIET,
        }
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        consumer = Consumer(self._settings | {"enable.auto.commit": False})
        while not self._stop.wait(0.02):
            self.attempted += 1
            with suppress(KafkaException):  # nobody coordinates at this moment
                done = consumer.commit(offsets=[self._place(self.attempted)], asynchronous=False)
                if done and done[0].error is None:
                    self.committed = self.attempted
        consumer.close()

    def _place(self, offset: int = -1001) -> TopicPartition:
        return TopicPartition(self._topic, 0, offset)

    def check(self) -> None:
        at_least = self.committed
        consumer = Consumer(self._settings | {"enable.auto.commit": False})
        deadline = time.monotonic() + _AFTER_ALL_S
        while True:
            with suppress(KafkaException):
                (found,) = consumer.committed([self._place()], timeout=10)
                if found.error is None:
                    break
            assert time.monotonic() < deadline, "nobody says what was committed"
        consumer.close()
        assert at_least <= found.offset <= self.attempted, (at_least, found.offset, self.attempted)

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        self.check()
