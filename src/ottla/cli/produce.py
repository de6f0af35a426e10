"""`ottla produce`: records from arguments or lines of input, placed on partitions as Java clients do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from ottla.cli.address import Address, bootstrap_option
from ottla.cli.name_value import NameValue
from ottla.cli.output import note

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command()
@click.argument("topic")
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("-k", "--key-separator", metavar="TEXT", help="What stands between key and value in each record.")
@click.option("-H", "--header", "headers", type=NameValue(), multiple=True, help="A header of all records; repeatable.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Write to this partition, whatever the key.")
@click.option("-Z", "--empty-is-null", is_flag=True, help="An empty value is null: a tombstone. An empty key is null.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-z", "--compression", type=click.Choice(CODECS), default="none", show_default=True)
@click.option("-X", "own", type=NameValue(), multiple=True, help="Any other property of librdkafka; repeatable.")
@bootstrap_option
def command(
    topic: str,
    values: tuple[str, ...],
    key_separator: str | None,
    headers: tuple[tuple[str, str], ...],
    partition: int | None,
    empty_is_null: bool,
    acks: str,
    compression: str,
    own: tuple[tuple[str, str], ...],
    bootstrap: tuple[Address, ...],
) -> None:
    """Write records to TOPIC: each VALUE, or each line of input if none is given."""
    from confluent_kafka import KafkaException, Producer

    from ottla.cli import client
    from ottla.model.errors import OttlaError

    properties = client.settings(
        bootstrap,
        (("acks", acks), ("compression.type", compression), ("partitioner", "murmur2_random"), *own),
    )
    try:
        producer = Producer(properties)
    except (KafkaException, ValueError, TypeError) as error:
        raise client.client_error(error) from None
    client.partitions_of(producer, topic, bootstrap)  # asks for the topic, which may create it
    failures: list[str] = []
    written = 0

    def delivered(error: Any, message: Any) -> None:
        nonlocal written
        if error is None:
            written += 1
        else:
            failures.append(error.str())

    more: dict[str, Any] = {} if partition is None else {"partition": partition}
    if headers:
        more["headers"] = [(name, value.encode()) for name, value in headers]
    try:
        for record in _records(values):
            key, value = _split(record, key_separator, empty_is_null)
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=delivered, **more)
                    break
                except BufferError:  # the queue is full: let it drain
                    producer.poll(0.1)
                except KafkaException as error:
                    raise client.client_error(error) from None
            producer.poll(0)
    except KeyboardInterrupt:
        pass  # what was read so far is still delivered
    left = producer.flush(60)
    if failures or left:
        reason = failures[0] if failures else "the broker does not answer"
        raise OttlaError(f"{len(failures) + left} records were not written to {topic}: {reason}")
    if sys.stderr.isatty():
        note(f"{written} record{'' if written == 1 else 's'} written to {topic}.")


def _records(values: tuple[str, ...]) -> Iterator[bytes]:
    if values:
        yield from (value.encode("utf-8", "surrogateescape") for value in values)
        return
    if sys.stdin.isatty():
        note("One record a line; Ctrl-D ends.")
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\n").removesuffix(b"\r")


def _split(record: bytes, separator: str | None, empty_is_null: bool) -> tuple[bytes | None, bytes | None]:
    """Key and value; without a separator in it, the record has no key."""
    key: bytes | None = None
    value: bytes | None = record
    if separator:
        before, found, after = record.partition(separator.encode())
        if found:
            key, value = before, after
    if empty_is_null:
        return key or None, value or None
    return key, value
