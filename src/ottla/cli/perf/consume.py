"""`ottla perf consume`."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.interrupts import put_off
from ottla.cli.output import output_option
from ottla.cli.perf.options import duration_option, own_option

BATCH: Final = 10_000


@click.command("consume")
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--records", type=click.IntRange(min=1), help="How many; by default all that are there.")
@duration_option
@own_option
@output_option
@cluster_options
def command(
    topic: str,
    records: int | None,
    duration: float | None,
    own: tuple[tuple[str, str], ...],
    output: str | None,
    cluster: Cluster,
) -> None:
    """Read TOPIC from its beginning as fast as can be, and say how many records a second."""
    from confluent_kafka import Consumer

    from ottla.cli import client
    from ottla.cli.perf.figures import print_figures, rates

    client.check_reachable(cluster)
    always = (
        *client.READING,
        ("queued.min.messages", "1000000"),
        ("queued.max.messages.kbytes", str(256 << 10)),
        ("fetch.message.max.bytes", str(8 << 20)),
    )
    consumer = client.make(Consumer, client.settings(cluster, (*always, *own)))
    try:
        with client.told_in_a_line():
            partitions = client.chosen_partitions(consumer, topic, (), cluster)
            read, size, seconds, first_s = _read(consumer, topic, partitions, records, duration, cluster.timeout_s)
    finally:
        consumer.close()
    figures = rates(read, size, seconds) | {"first_record_after_seconds": first_s}
    print_figures(output, f"reading {topic}", figures)


def _read(
    consumer: Any, topic: str, partitions: list[int], records: int | None, duration: float | None, timeout_s: float
) -> tuple[int, int, float, float | None]:
    """Records, bytes of their values, seconds from the first of them on, and when that came."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    from ottla.cli.progress import Progress, bytes_text

    ends = {}
    there = 0
    for number in partitions:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=timeout_s)
        if high > low:
            ends[number] = high
            there += high - low
    wanted = there if records is None else records
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in (partitions if records else ends)])
    progress = Progress(total=wanted)
    begun = time.perf_counter()
    first: float | None = None
    last = begun
    read = size = 0
    try:
        while read < wanted and (ends or records is not None):
            now = time.perf_counter()
            if duration is not None and now - begun >= duration:
                break
            with put_off:
                messages = consumer.consume(min(BATCH, wanted - read), timeout=0.2)
            if not messages:
                continue
            last = time.perf_counter()
            first = last if first is None else first
            records_read = [message for message in messages if message.error() is None]
            read += len(records_read)
            size += sum(map(len, records_read))
            if len(records_read) < len(messages):
                _take_errors(messages, ends)
            progress.tick(read, bytes_text(size))
    except KeyboardInterrupt:
        pass
    progress.end()
    return read, size, last - begun, None if first is None else round(first - begun, 4)


def _take_errors(messages: list[Any], ends: dict[int, int]) -> None:
    """The end of a partition counts: its last offsets may be control records, which nobody gets to see."""
    from confluent_kafka import KafkaError, KafkaException

    for message in messages:
        error = message.error()
        if error is None:
            continue
        if error.code() == KafkaError._PARTITION_EOF:
            if message.offset() >= ends.get(message.partition(), 0):
                ends.pop(message.partition(), None)
        elif not error.retriable():
            raise KafkaException(error)
