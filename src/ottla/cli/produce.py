"""`ottla produce`: records from arguments, lines or files, placed on partitions as Java clients do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.choices import Choice
from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.interrupts import put_off
from ottla.cli.name_value import NameValue
from ottla.cli.output import count, outcome_option, print_outcome
from ottla.cli.times import Time

if TYPE_CHECKING:
    from ottla.cli.input_records import NewRecord

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
STALLED_S: Final = 60.0


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option(
    "-k", "-K", "--key-separator", metavar="TEXT",
    help="What stands between key and value in each record. One without it is an error.",
)  # fmt: skip
@click.option("--key", help="The key of all records.")
@click.option("-H", "--header", "headers", type=NameValue(), multiple=True, help="A header of all records; repeatable.")
@click.option("-p", "--partition", type=click.IntRange(min=0), help="Write to this partition, whatever the key.")
@click.option(
    "-i", "--input", "files", metavar="FILE", multiple=True, help="Read lines of a file; repeatable. - is stdin."
)
@click.option("-D", "--delimiter", default="\\n", show_default=True, help="What ends a record of the input.")
@click.option("--whole", is_flag=True, help="A file, or the input, is one record.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Each line is a JSON object, as `consume -J` prints them.")
@click.option("-Z", "--empty-is-null", is_flag=True, help="An empty value is null: a tombstone. An empty key is null.")
@click.option("--null-marker", metavar="TEXT", help="A key or value that is this text is null.")
@click.option("--tombstone", is_flag=True, help="Each VALUE or line is a key; the value is null.")
@click.option("--timestamp", type=Time(), help="The time of all records. By default when they are read.")
@click.option("--acks", type=Choice(["0", "1", "all"]), default="all", show_default=True)
@click.option("-z", "--compression", type=Choice(CODECS), default="none", show_default=True)
@click.option("-q", "--quiet", is_flag=True, help="No remarks.")
@click.option("-X", "own", type=NameValue(), multiple=True, help="Any other property of librdkafka; repeatable.")
@outcome_option
@cluster_options
def command(
    topic: str,
    values: tuple[str, ...],
    key_separator: str | None,
    key: str | None,
    headers: tuple[tuple[str, str], ...],
    partition: int | None,
    files: tuple[str, ...],
    delimiter: str,
    whole: bool,
    as_json: bool,
    empty_is_null: bool,
    null_marker: str | None,
    tombstone: bool,
    timestamp: int | None,
    acks: str,
    compression: str,
    quiet: bool,
    own: tuple[tuple[str, str], ...],
    output: str | None,
    cluster: Cluster,
) -> None:
    """Write records to TOPIC: each VALUE, or each line of the input if none is given."""
    from ottla.cli.input_records import Splitting, inputs, json_records, split_records
    from ottla.cli.record_format import unescape
    from ottla.model.errors import OttlaError

    splits = [name for name, given in (("--key-separator", key_separator), ("--tombstone", tombstone)) if given]
    if len(splits) + (key is not None) > 1 or (as_json and (splits or key is not None)):
        raise click.UsageError("--key-separator, --key, --tombstone and --json exclude each other")
    found = inputs(values, files, unescape(delimiter) or b"\n", whole=whole)
    how = Splitting(
        unescape(key_separator) if key_separator else None,
        None if key is None else key.encode(),
        tombstone,
        empty_is_null,
        None if null_marker is None else null_marker.encode(),
    )
    records = json_records(found) if as_json else split_records(found, how)
    common = tuple((name, value.encode()) for name, value in headers)

    from confluent_kafka import Producer

    from ottla.cli import client

    properties = client.settings(
        cluster, (("acks", acks), ("compression.type", compression), ("partitioner", "murmur2_random"), *own)
    )
    producer = client.make(Producer, properties)
    client.check_reachable(cluster)
    client.partitions_of(producer, topic, cluster)  # asks for the topic, which may create it
    writer = _Writer(producer, topic, quiet=quiet or sys.stdin.isatty())
    try:
        writer.write(_with(records, common, partition, timestamp))
    except KeyboardInterrupt:
        pass  # what was read so far is still delivered
    except OttlaError as error:
        writer.finish()
        raise OttlaError(f"{error}. {count(writer.written, 'record')} before it written, none after it.") from None
    writer.finish()
    writer.check()
    told = [f"{count(writer.written, 'record')} written to {topic}."] if sys.stderr.isatty() and not quiet else []
    print_outcome(output, {"topic": topic, "records": writer.written}, *told)


def _with(
    records: Iterator[NewRecord],
    headers: tuple[tuple[str, bytes], ...],
    partition: int | None,
    timestamp: int | None,
) -> Iterator[NewRecord]:
    """What options say for all records."""
    for record in records:
        yield record._replace(
            headers=(*record.headers, *headers),
            partition=record.partition if partition is None else partition,
            timestamp=record.timestamp if timestamp is None else timestamp,
        )


def _reason(error: Any, message: Any) -> str:
    from confluent_kafka import KafkaError

    if error.code() == KafkaError.INVALID_RECORD and message.key() is None:
        return f"{error.str()}. If the topic is compacted, its records need keys: --key, or --key-separator"
    return str(error.str())


class _Writer:
    def __init__(self, producer: Any, topic: str, *, quiet: bool) -> None:
        from ottla.cli.progress import Progress

        self.written = 0
        self._producer = producer
        self._topic = topic
        self._failures: dict[str, int] = {}
        self._progress = Progress(shown=not quiet)
        self._unsent = 0

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.written += 1
        else:
            reason = _reason(error, message)
            self._failures[reason] = self._failures.get(reason, 0) + 1

    def write(self, records: Iterator[NewRecord]) -> None:
        from confluent_kafka import KafkaException

        from ottla.cli.client import client_error

        produce, poll = self._producer.produce, self._producer.poll
        for record in records:
            more: dict[str, Any] = {}
            if record.headers:
                more["headers"] = list(record.headers)
            if record.partition is not None:
                more["partition"] = record.partition
            if record.timestamp is not None:
                more["timestamp"] = record.timestamp
            while True:
                try:
                    produce(self._topic, record.value, record.key, on_delivery=self._delivered, **more)
                    break
                except BufferError:
                    with put_off:
                        poll(0.1)
                except KafkaException as error:
                    raise client_error(error) from None
            with put_off:
                poll(0)
            self._progress.tick(self.written)
            if self._failures:
                return

    def finish(self) -> None:
        """Waits for what was handed over, as long as something goes on; Ctrl-C gives up on it."""
        last, since = self.written, time.monotonic()
        try:
            while (left := self._flush()) and not self._failures:
                self._progress.tick(self.written)
                if self.written > last:
                    last, since = self.written, time.monotonic()
                elif time.monotonic() - since > STALLED_S:
                    break
        except KeyboardInterrupt:
            left = len(self._producer)
        self._unsent = left
        self._progress.end()

    def _flush(self) -> int:
        with put_off:
            return int(self._producer.flush(0.2))

    def check(self) -> None:
        from ottla.model.errors import OttlaError

        failed = sum(self._failures.values()) + self._unsent
        if failed:
            reason = next(iter(self._failures), "no answer in time, or interrupted")
            raise OttlaError(
                f"{count(failed, 'record')} {'was' if failed == 1 else 'were'} not written to {self._topic}: {reason}"
                + (f" ({count(self.written, 'record')} before)" if self.written else "")
            )
