"""Copies the records of a topic into another one with as many partitions."""

from __future__ import annotations

from typing import Any, Final

from ottla.cli import client
from ottla.cli.cluster_options import Cluster
from ottla.cli.interrupts import put_off
from ottla.cli.output import count
from ottla.cli.progress import Progress
from ottla.model.errors import OttlaError

BATCH: Final = 1000
_LARGEST_RECORD: Final = 1_000_000_000  # the most that librdkafka takes: what the source took, the copy shall take


def copy_records(cluster: Cluster, source: str, target: str, *, quiet: bool) -> int:
    """All that is there when it begins. Partition, key, value, headers and timestamp are kept, offsets are not."""
    from confluent_kafka import Consumer, Producer

    consumer = client.make(Consumer, client.settings(cluster, client.READING))
    producer = client.make(
        Producer,
        client.settings(
            cluster,
            (("enable.idempotence", "true"), ("message.max.bytes", str(_LARGEST_RECORD)), ("linger.ms", "20")),
        ),
    )
    try:
        with client.told_in_a_line():
            return _Copy(consumer, producer, cluster, target, quiet=quiet).run(source)
    finally:
        consumer.close()


class _Copy:
    def __init__(self, consumer: Any, producer: Any, cluster: Cluster, target: str, *, quiet: bool) -> None:
        self._consumer = consumer
        self._producer = producer
        self._cluster = cluster
        self._target = target
        self._quiet = quiet
        self._written = 0
        self._failure: str | None = None

    def run(self, source: str) -> int:
        from confluent_kafka import TopicPartition

        self._wait_for_target()
        parts = [TopicPartition(source, n) for n in client.chosen_partitions(self._consumer, source, (), self._cluster)]
        left: dict[int, int] = {}
        total = 0
        for part in parts:
            low, high = self._consumer.get_watermark_offsets(part, timeout=self._cluster.timeout_s)
            part.offset = low
            if high > low:
                left[part.partition] = high
                total += high - low
        self._consumer.assign([part for part in parts if part.partition in left])
        progress = Progress(total=total, shown=not self._quiet)
        try:
            while left:
                with put_off:
                    messages = self._consumer.consume(BATCH, timeout=0.2)
                for message in messages:
                    self._take(message, left)
                with put_off:
                    self._producer.poll(0)
                self._check()
                progress.tick(self._written)
            while self._producer.flush(0.5):
                self._check()
                progress.tick(self._written)
            self._check()
        finally:
            progress.end()
        return self._written

    def _wait_for_target(self) -> None:
        """A topic that was just created is not known to every broker at once."""
        import time

        deadline = time.monotonic() + self._cluster.timeout_s
        while not client.partitions_of(self._producer, self._target, self._cluster):
            if time.monotonic() > deadline:
                raise OttlaError(f"topic {self._target} was created, but no broker leads it yet: nothing was copied")
            time.sleep(0.05)

    def _take(self, message: Any, left: dict[int, int]) -> None:
        from confluent_kafka import KafkaError, KafkaException

        partition = message.partition()
        end = left.get(partition)
        error = message.error()
        if end is None:
            return
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if message.offset() >= end:  # the last offsets may be control records, which nobody gets to see
                    del left[partition]
            elif not error.retriable():
                raise KafkaException(error)
            return
        if message.offset() < end:
            self._produce(message)
        if message.offset() >= end - 1:
            del left[partition]

    def _produce(self, message: Any) -> None:
        more: dict[str, Any] = {"headers": headers} if (headers := message.headers()) else {}
        kind, timestamp = message.timestamp()
        if kind:
            more["timestamp"] = timestamp
        while True:
            try:
                self._producer.produce(
                    self._target, message.value(), message.key(), message.partition(), self._delivered, **more
                )
                return
            except BufferError:
                with put_off:
                    self._producer.poll(0.1)
                self._check()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self._written += 1
        else:
            self._failure = error.str()

    def _check(self) -> None:
        if self._failure is not None:
            self._producer.purge()
            raise OttlaError(
                f"{count(self._written, 'record')} copied to {self._target}, then one was refused: {self._failure}"
            )
