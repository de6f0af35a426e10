"""`ottla perf e2e`."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from ottla.cli.choices import Choice
from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.interrupts import put_off
from ottla.cli.output import count, output_option
from ottla.cli.perf.options import own_option, size_option

STAMP: Final = 16  # the clock, and which run it is: others may write to the topic too
WARM_UP: Final = 50
LOST_AFTER_S: Final = 30.0


@click.command("e2e")
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--records", type=click.IntRange(min=1), default=1000, show_default=True, help="How many.")
@size_option
@click.option(
    "--rate", type=click.FloatRange(min=0, min_open=True), help="Records a second. By default one after another."
)
@click.option("--acks", type=Choice(["1", "all"]), default="all", show_default=True)
@click.option("-p", "--partition", type=click.IntRange(min=0), default=0, show_default=True)
@own_option
@output_option
@cluster_options
def command(
    topic: str,
    records: int,
    size: int,
    rate: float | None,
    acks: str,
    partition: int,
    own: tuple[tuple[str, str], ...],
    output: str | None,
    cluster: Cluster,
) -> None:
    """Say how long a record takes from a producer here, through TOPIC, to a consumer here.

    The first fifty are sent beforehand and do not count. They stay in the topic, as the others do.
    """
    from confluent_kafka import Consumer, Producer

    from ottla.cli import client
    from ottla.cli.perf.figures import latency, print_figures

    client.check_reachable(cluster)
    writing = (("acks", acks), ("linger.ms", "0"))
    producer = client.make(Producer, client.settings(cluster, (*writing, *own)))
    client.partitions_of(producer, topic, cluster)  # asks for the topic, which may create it
    consumer = client.make(Consumer, client.settings(cluster, (*client.READING, *own)))
    try:
        with client.told_in_a_line():
            client.chosen_partitions(consumer, topic, (partition,), cluster)
            way = _Way(producer, consumer, topic, partition, max(size, STAMP))
            way.open(cluster.timeout_s)
            for _ in range(WARM_UP):
                way.one_after_another()
            way.samples_ms.clear()
            if rate is None:
                way.measure(records)
            else:
                way.measure_at(rate, records)
    finally:
        consumer.close()
    figures: dict[str, Any] = {
        "records": len(way.samples_ms),
        "size": max(size, STAMP),
        "latency_ms": latency(way.samples_ms),
    }
    how = "one after another" if rate is None else f"at {rate:g}/s"
    print_figures(
        output, f"{count(figures['records'], 'record')} of {figures['size']} bytes through {topic}, {how}", figures
    )


class _Way:
    def __init__(self, producer: Any, consumer: Any, topic: str, partition: int, size: int) -> None:
        import os

        from ottla.cli.progress import Progress

        self.samples_ms: list[float] = []
        self._failure: Any = None
        self._producer = producer
        self._consumer = consumer
        self._topic = topic
        self._partition = partition
        self._run = os.urandom(8)
        self._filling = bytes(size - STAMP)
        self._progress = Progress()

    def open(self, timeout_s: float) -> None:
        from confluent_kafka import TopicPartition

        part = TopicPartition(self._topic, self._partition)
        _, part.offset = self._consumer.get_watermark_offsets(part, timeout=timeout_s)
        self._consumer.assign([part])

    def measure(self, records: int) -> None:
        try:
            for _ in range(records):
                self.one_after_another()
                self._progress.tick(len(self.samples_ms))
        except KeyboardInterrupt:
            pass
        self._progress.end()

    def one_after_another(self) -> None:
        self._send()
        self._receive_until(len(self.samples_ms) + 1, time.perf_counter() + LOST_AFTER_S)

    def measure_at(self, rate: float, records: int) -> None:
        """What is due is sent whether or not the one before it has come: a stall counts for all it holds up."""
        begun = time.perf_counter()
        sent = 0
        try:
            while sent < records:
                due = begun + sent / rate
                now = time.perf_counter()
                if now >= due:
                    self._send(due)
                    sent += 1
                else:
                    self._take(self._poll(min(due - now, 0.1)))
                self._serve()
                self._progress.tick(len(self.samples_ms))
            self._receive_until(records, time.perf_counter() + LOST_AFTER_S)
        except KeyboardInterrupt:
            pass
        self._progress.end()

    def _send(self, at: float | None = None) -> None:
        stamp = int((time.perf_counter() if at is None else at) * 1e9).to_bytes(8, "big") + self._run
        self._producer.produce(
            self._topic, stamp + self._filling, partition=self._partition, on_delivery=self._delivered
        )
        self._serve()

    def _serve(self) -> None:
        """Hears of deliveries. What is raised where librdkafka tells of one may be lost."""
        with put_off:
            self._producer.poll(0)
        if self._failure is not None:
            from confluent_kafka import KafkaException

            raise KafkaException(self._failure)

    def _delivered(self, error: Any, message: Any) -> None:
        self._failure = self._failure or error

    def _receive_until(self, count: int, deadline: float) -> None:
        while len(self.samples_ms) < count:
            self._take(self._poll(0.1))
            self._serve()
            if time.perf_counter() > deadline:
                from ottla.model.errors import OttlaError

                raise OttlaError(
                    f"a record has not come back within {LOST_AFTER_S:.0f} s: {len(self.samples_ms)} of {count} have"
                )

    def _poll(self, seconds: float) -> Any:
        with put_off:
            return self._consumer.poll(seconds)

    def _take(self, message: Any) -> None:
        if message is None or message.error() is not None:
            return
        value = message.value()
        if value is not None and value[8:STAMP] == self._run:
            self.samples_ms.append(time.perf_counter() * 1e3 - int.from_bytes(value[:8], "big") / 1e6)
