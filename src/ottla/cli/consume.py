"""`ottla consume`: records of a topic, by assignment (no group), in a format of one's choice."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from ottla.cli.address import Address, bootstrap_option
from ottla.cli.name_value import NameValue
from ottla.cli.output import note
from ottla.cli.record_format import DEFAULT_FORMAT, compile_format

BATCH: Final = 500


@click.command()
@click.argument("topic")
@click.option("--from-beginning", is_flag=True, help="Start with the oldest record; the same as -o beginning.")
@click.option(
    "-o", "--offset", metavar="OFFSET", help="Where to start: beginning, end (the default), N, or -N before the end."
)
@click.option("-n", "--count", type=click.IntRange(min=1), help="End after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="End when the last record there is has been read.")
@click.option("-p", "--partition", "only", type=click.IntRange(min=0), multiple=True, help="Only these; repeatable.")
@click.option(
    "-f", "--format", "template", default=DEFAULT_FORMAT, show_default=True,
    help="%k key, %s value, %t topic, %p partition, %o offset, %T timestamp, %h headers; \\n, \\t.",
)  # fmt: skip
@click.option("-X", "own", type=NameValue(), multiple=True, help="Any other property of librdkafka; repeatable.")
@bootstrap_option
def command(
    topic: str,
    from_beginning: bool,
    offset: str | None,
    count: int | None,
    exit_at_end: bool,
    only: tuple[int, ...],
    template: str,
    own: tuple[tuple[str, str], ...],
    bootstrap: tuple[Address, ...],
) -> None:
    """Read the records of TOPIC and print them, by default each value on a line."""
    from confluent_kafka import Consumer, KafkaException

    from ottla.cli import client

    if from_beginning and offset is not None:
        raise click.UsageError("--from-beginning and -o exclude each other")
    start = parse_start("beginning" if from_beginning else offset or "end")
    formatter = compile_format(template)
    always = [("group.id", "ottla-cli"), ("enable.auto.commit", "false"), ("enable.partition.eof", "true")]
    if exit_at_end:  # the end is known only when a fetch comes back empty
        always.append(("fetch.wait.max.ms", "20"))
    properties = client.settings(bootstrap, (*always, *own))
    try:
        consumer = Consumer(properties)
    except (KafkaException, ValueError, TypeError) as error:
        raise client.client_error(error) from None
    try:
        _assign(consumer, topic, _chosen(consumer, topic, only, bootstrap), start)
        _copy(consumer, formatter, count, exit_at_end)
    except KafkaException as error:
        raise client.client_error(error) from None
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # the reader of our output has seen enough; Python must not complain when it flushes at exit
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        consumer.close()


def parse_start(text: str) -> int | str:
    """beginning, end, or a number; a negative one counts from the end."""
    if text in ("beginning", "end"):
        return text
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"-o {text}: must be beginning, end or a number") from None


def _chosen(consumer: Any, topic: str, only: tuple[int, ...], bootstrap: tuple[Address, ...]) -> list[int]:
    from ottla.cli import client
    from ottla.model.errors import OttlaError

    there = client.partitions_of(consumer, topic, bootstrap)
    if not there:
        raise OttlaError(f"topic {topic} is not there; `ottla topic create {topic}` makes it")
    missing = sorted(set(only) - set(there))
    if missing:
        raise OttlaError(f"topic {topic} has no partition {missing[0]}, only 0 to {there[-1]}")
    return sorted(set(only)) or there


def _assign(consumer: Any, topic: str, partitions: list[int], start: int | str) -> None:
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    def first(partition: int) -> int:
        if start == "beginning":
            return int(OFFSET_BEGINNING)
        if start == "end":
            return int(OFFSET_END)
        assert isinstance(start, int)
        if start >= 0:
            return start
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        return int(max(low, high + start))

    consumer.assign([TopicPartition(topic, partition, first(partition)) for partition in partitions])
    if sys.stdout.isatty() and start == "end":
        note(f"Waiting for new records of {topic}; Ctrl-C ends, --from-beginning shows the old ones.")


def _copy(consumer: Any, formatter: Any, count: int | None, exit_at_end: bool) -> None:
    from confluent_kafka import KafkaError, KafkaException

    out = sys.stdout.buffer
    left = count
    reading = {part.partition for part in consumer.assignment()}
    while left is None or left > 0:
        messages = consumer.consume(BATCH if left is None else min(BATCH, left), timeout=0.2)
        for message in messages:
            error = message.error()
            if error is None:
                out.write(formatter(message))
                left = None if left is None else left - 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reading.discard(message.partition())
            elif not error.retriable():
                raise KafkaException(error)
        out.flush()
        if exit_at_end and not reading:
            return
