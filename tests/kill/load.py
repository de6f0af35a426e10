"""A steady load on a node that is killed under it, and what must be true of its records afterwards."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.raw import FETCH, LIST_OFFSETS, Raw, fetch_values
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.record.batch import computed_crc
from ottla.record.reader import iterate_batches, read_records

_PADDING: Final = b"." * 80
_FETCH_VERSION: Final = 12


class Place(NamedTuple):
    partition: int
    offset: int


class Writer:
    """Produces numbered records to all partitions of a topic in turn, and notes which were acknowledged, and where."""

    def __init__(self, address: str, topic: str, partitions: int, rate: int, *, idempotent: bool, codec: str) -> None:
        from confluent_kafka import Producer

        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[Place, int] = {}
        self.failed: list[str] = []
        self.produced = [0] * partitions
        self.confirmed = [0] * partitions
        self._rate = rate
        # Without idempotence a retry may overtake what was sent after it, unless only one request is under way.
        in_flight = 5 if idempotent else 1
        self._producer = Producer(
            {
                "bootstrap.servers": address, "acks": "all", "enable.idempotence": idempotent, "linger.ms": 2,
                "max.in.flight": in_flight, "batch.num.messages": 40, "compression.type": codec,
                "delivery.timeout.ms": 120_000, "socket.timeout.ms": 5_000, "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100, "log_level": 2,
            }
        )  # fmt: skip
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer of {topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        sent = 0
        while not self._stop.wait(0.005):
            due = int((time.monotonic() - began) * self._rate) - sent
            for _ in range(min(due, 1000)):
                partition = sent % self.partitions
                try:
                    self._producer.produce(
                        self.topic, b"%d" % self.produced[partition] + _PADDING, partition=partition,
                        on_delivery=self._delivered,
                    )  # fmt: skip
                except BufferError:  # its queue is full, the node is away for long: what is due now is sent later
                    break
                self.produced[partition] += 1
                sent += 1
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error.str())
        else:
            self.acknowledged[Place(message.partition(), message.offset())] = number_in(message.value())
            self.confirmed[message.partition()] += 1

    def finish(self) -> None:
        """Stops producing and waits until all is acknowledged."""
        self._stop.set()
        self._thread.join(PATIENCE_S)
        left = self._producer.flush(120)
        assert not left, f"{left} records to {self.topic} were never acknowledged"


def number_in(value: bytes | None) -> int:
    assert value is not None and value.endswith(_PADDING)
    return int(value[: -len(_PADDING)])


class Reader:
    """Reads a topic through the node as far as it goes, again and again, and keeps what it has seen."""

    def __init__(self, port: int, topic: str, partitions: int) -> None:
        self.numbers: list[list[int]] = [[] for _ in range(partitions)]  # by offset from `starts` on
        self.starts = [0] * partitions
        self._port = port
        self._topic = topic

    def catch_up(self) -> None:
        """To the high watermarks that the node tells first; what is written meanwhile may be read or not."""
        with Raw(self._port) as raw:
            goals: dict[int, int] = {}
            while True:
                offsets = {(self._topic, number): self._next(number) for number in range(len(self.numbers))}
                answer = raw.ask(FETCH, _FETCH_VERSION, **fetch_values(offsets))
                for row in answer.responses[0].partitions:
                    if row.error_code == ErrorCode.offset_out_of_range:
                        self._begin_at(row.partition_index, self._first_offset(raw, row.partition_index))
                        continue
                    assert row.error_code == ErrorCode.none, (self._topic, row.partition_index, row.error_code)
                    goals.setdefault(row.partition_index, row.high_watermark)
                    self._take(row.partition_index, row.records or b"")
                if len(goals) == len(self.numbers) and all(self._next(n) >= goal for n, goal in goals.items()):
                    return

    def _first_offset(self, raw: Raw, partition: int) -> int:
        row = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -2}
        topics = [{"name": self._topic, "partitions": [row]}]
        answer = raw.ask(LIST_OFFSETS, 6, replica_id=-1, isolation_level=0, topics=topics)
        first: int = answer.topics[0].partitions[0].offset
        return first

    def _begin_at(self, partition: int, offset: int) -> None:
        """Retention has deleted what came before."""
        assert offset > self._next(partition), f"{self._topic}-{partition} ends before {self._next(partition)}"
        self.starts[partition], self.numbers[partition] = offset, []

    def _next(self, partition: int) -> int:
        return self.starts[partition] + len(self.numbers[partition])

    def _take(self, partition: int, data: bytes) -> None:
        for header, batch in iterate_batches(data):
            assert computed_crc(batch) == header.crc
            for record in read_records(batch):
                expected = self._next(partition)
                if record.offset < expected:
                    continue
                assert record.offset == expected, f"{self._topic}-{partition}: {record.offset} follows {expected - 1}"
                self.numbers[partition].append(number_in(record.value))

    def at(self, place: Place) -> int | None:
        index = place.offset - self.starts[place.partition]
        numbers = self.numbers[place.partition]
        return numbers[index] if 0 <= index < len(numbers) else None


def check_nothing_acknowledged_is_missing(reader: Reader, acknowledged: dict[Place, int]) -> None:
    wrong = {
        place: (number, reader.at(place))
        for place, number in acknowledged.items()
        if place.offset >= reader.starts[place.partition] and reader.at(place) != number
    }
    assert not wrong, (
        f"{len(wrong)} acknowledged records are not where they were; the first: {next(iter(wrong.items()))}"
    )


def check_order(reader: Reader, produced: list[int], *, once: bool) -> None:
    """Each record is there, in the order of sending; `once`: and no second time."""
    for partition, numbers in enumerate(reader.numbers):
        if once:
            assert numbers == list(range(produced[partition])), first_break(numbers)
        else:
            assert list(dict.fromkeys(numbers)) == list(range(produced[partition])), first_break(numbers)


def first_break(numbers: list[int]) -> str:
    for index, number in enumerate(numbers[1:], 1):
        if number != numbers[index - 1] + 1:
            return f"at offset {index}: {numbers[max(0, index - 5) : index + 5]}"
    return f"{len(numbers)} records, the last is {numbers[-1:]}"


def check_files(folder: Path) -> dict[str, int]:
    """Every batch of every segment: checksum, offsets without a gap, segments named as they begin; gives ends."""
    ends: dict[str, int] = {}
    segments: dict[Path, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*/*.log")):
        segments[path.parent].append(path)
    for parent, paths in segments.items():
        expected = int(paths[0].stem)
        for path in paths:
            assert int(path.stem) == expected, f"{path}: the segment before ends at {expected}"
            data = path.read_bytes()
            read = 0
            for header, batch in iterate_batches(data):
                assert header.crc == computed_crc(batch), f"{path}: wrong checksum at {read}"
                assert header.base_offset == expected, f"{path}: {header.base_offset} instead of {expected} at {read}"
                expected = header.next_offset
                read += header.size
            assert read == len(data), f"{path}: {len(data) - read} bytes after the last batch"
        ends[parent.name] = expected
    return ends
