"""`ottla perf produce`."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click

from ottla.cli.choices import Choice
from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.interrupts import put_off
from ottla.cli.output import output_option
from ottla.cli.perf.options import duration_option, own_option, size_option
from ottla.cli.produce import CODECS

BATCH: Final = 1000
SAMPLE_EVERY: Final = 100
VALUES_BYTES: Final = 16 << 20


@click.command("produce")
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--records", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="How many.")
@duration_option
@size_option
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Records a second; by default all it can.")
@click.option("--acks", type=Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-z", "--compression", type=Choice(CODECS), default="none", show_default=True)
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Only to this one.")
@own_option
@output_option
@cluster_options
def command(
    topic: str,
    records: int,
    duration: float | None,
    size: int,
    rate: float | None,
    acks: str,
    compression: str,
    partition: int | None,
    own: tuple[tuple[str, str], ...],
    output: str | None,
    cluster: Cluster,
) -> None:
    """Write records to TOPIC as fast as can be, or at a rate, and say how many a second and how long each took.

    At full speed one record of a hundred is looked at for its latency and its fate, with --rate every one.
    """
    from confluent_kafka import Producer

    from ottla.cli import client
    from ottla.cli.perf.figures import latency, print_figures, rates

    client.check_reachable(cluster)
    always = (
        ("acks", acks),
        ("compression.type", compression),
        ("queue.buffering.max.messages", "1000000"),
        ("batch.size", "1000000"),
        ("linger.ms", "5"),
    )
    producer = client.make(Producer, client.settings(cluster, (*always, *own)))
    client.partitions_of(producer, topic, cluster)
    load = _Load(producer, topic, _values(size), partition)
    with client.told_in_a_line():
        try:
            load.run(records, duration, rate)
        except KeyboardInterrupt:
            pass  # what was sent counts
        seconds = load.finish()
    figures = rates(load.sent, load.sent * size, seconds)
    figures |= {"latency_ms": latency(load.latencies_ms), "looked_at": load.looked_at, "failed": load.failed}
    if load.failed:
        figures["first_failure"] = load.first_failure
    print_figures(output, f"writing to {topic}, {size} bytes a record, acks {acks}, {compression}", figures)
    if load.failed:
        sys.exit(1)


def _values(size: int) -> list[bytes]:
    """As many different ones as a batch has. Half of each is random: neither the best nor the worst for a codec."""
    import random

    source = random.Random(0)
    half = size // 2
    return [source.randbytes(size - half) + b"x" * half for _ in range(max(1, min(BATCH, VALUES_BYTES // size)))]


class _Load:
    def __init__(self, producer: Any, topic: str, values: list[bytes], partition: int | None) -> None:
        from ottla.cli.progress import Progress

        self.sent = 0
        self.looked_at = 0
        self.failed = 0
        self.first_failure = ""
        self.latencies_ms: list[float] = []
        self._producer = producer
        self._topic = topic
        self._values = values
        self._more: dict[str, Any] = {} if partition is None else {"partition": partition}
        self._progress = Progress()
        self._begun = time.perf_counter()

    def _delivered(self, error: Any, message: Any) -> None:
        self.looked_at += 1
        if error is None:
            self.latencies_ms.append(message.latency() * 1000)
        else:
            self.failed += 1
            self.first_failure = self.first_failure or error.str()

    def run(self, records: int, duration: float | None, rate: float | None) -> None:
        """At a rate, a hundred times a second as many as are due."""
        self._begun = time.perf_counter()
        size = BATCH if rate is None else max(1, min(BATCH, int(rate / 100)))
        batch = self._batch(size, SAMPLE_EVERY if rate is None else 1)
        while self.sent < records:
            elapsed = time.perf_counter() - self._begun
            if duration is not None and elapsed >= duration:
                return
            if rate is not None and self.sent > elapsed * rate:
                with put_off:
                    self._producer.poll(min(self.sent / rate - elapsed, 0.1))
                continue
            left = records - self.sent
            self._send(batch if left >= size else self._batch(left, SAMPLE_EVERY if rate is None else 1))
            self.sent += min(size, left)
            with put_off:
                self._producer.poll(0)
            self._progress.tick(self.sent)

    def _batch(self, size: int, sample_every: int) -> list[dict[str, Any]]:
        """Made once and sent again and again."""
        messages: list[dict[str, Any]] = [{"value": self._values[n % len(self._values)]} for n in range(size)]
        for message in messages[::-sample_every]:
            message["callback"] = self._delivered
        return messages

    def _send(self, batch: list[dict[str, Any]]) -> None:
        waiting = batch
        while True:
            try:
                taken = self._producer.produce_batch(self._topic, waiting, **self._more)
            except BufferError:
                taken = 0
            if taken == len(waiting):
                return
            waiting = [message for message in waiting if "_error" in message] if taken else waiting
            for message in waiting:
                message.pop("_error", None)
            with put_off:
                self._producer.poll(0.01)

    def finish(self) -> float:
        """Waits for the last answer; seconds since the beginning."""
        while self._producer.flush(0.5):
            self._progress.tick(self.sent)
        self._progress.end()
        return time.perf_counter() - self._begun
