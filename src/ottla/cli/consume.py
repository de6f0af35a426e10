"""`ottla consume`: records of topics, by itself or as a member of a group, in a format of one's choice."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import group_names, topic_names
from ottla.cli.interrupts import put_off
from ottla.cli.name_value import NameValue
from ottla.cli.output import count as counted
from ottla.cli.output import note
from ottla.cli.partitions import partitions_option
from ottla.cli.record_format import DEFAULT_FORMAT, Formatter, compile_format, json_formatter
from ottla.cli.times import Time

if TYPE_CHECKING:
    from ottla.cli.reading_range import Range
    from ottla.cli.sharing import Sharing

BATCH: Final = 1000


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topic_names)
@click.option("--from-beginning", is_flag=True, help="Start with the oldest record; the same as -o beginning.")
@click.option(
    "-o", "--offset", "offsets", metavar="OFFSET", multiple=True,
    help="Where to start: beginning, end, stored (where the group is, without joining it), N, -N before the end, "
    "s@TIME; or where to end: e@TIME. By default at the end, or at the beginning if -e or a time says when to end. "
    "In a group it counts only where nothing is committed.",
)  # fmt: skip
@click.option("--from-time", "from_ms", type=Time(), help="Start with the first record at or after this time.")
@click.option("--until", "until_ms", type=Time(), help="End before the first record at or after this time.")
@click.option("-n", "-c", "--count", type=click.IntRange(min=1), help="End after so many records.")
@click.option("-e", "--exit-at-end", is_flag=True, help="End when the last record there is has been read.")
@partitions_option
@click.option(
    "-f", "--format", "template", default=DEFAULT_FORMAT, show_default=True,
    help="%k key, %s value, %K and %S their lengths, %t topic, %p partition, %o offset, %T timestamp, %h headers, %R "
    "length of the value in four bytes; \\n, \\t, \\xXX.",
)  # fmt: skip
@click.option("-J", "--json", "as_json", is_flag=True, help="A line of JSON for each record; `produce -J` reads it.")
@click.option("-Z", "--show-null", is_flag=True, help="Print NULL for a key or value that is null.")
@click.option("-q", "--quiet", is_flag=True, help="No remarks.")
@click.option(
    "-g", "--group", shell_complete=group_names,
    help="Read as a member of this group, which goes on where it was: what has been printed is committed.",
)  # fmt: skip
@click.option("--no-commit", is_flag=True, help="With --group: commit nothing.")
@click.option("-X", "own", type=NameValue(), multiple=True, help="Any other property of librdkafka; repeatable.")
@cluster_options
def command(
    topics: tuple[str, ...],
    from_beginning: bool,
    offsets: tuple[str, ...],
    from_ms: int | None,
    until_ms: int | None,
    count: int | None,
    exit_at_end: bool,
    only: tuple[int, ...],
    template: str,
    as_json: bool,
    show_null: bool,
    quiet: bool,
    group: str | None,
    no_commit: bool,
    own: tuple[tuple[str, str], ...],
    cluster: Cluster,
) -> None:
    """Read the records of topics and print them, by default each value on a line.

    A TIME is 2026-11-15T12:00 (local; +02:00 or Z for a zone), seconds or milliseconds since 1970, or `5m ago`.
    """
    from ottla.cli.reading_range import parse_range

    if from_beginning:
        offsets = ("beginning", *offsets)
    wanted = parse_range(offsets, from_ms, until_ms, int(time.time() * 1000), exit_at_end=exit_at_end)
    if wanted.start == "stored" and group is None:
        raise click.UsageError("-o stored needs --group: whose offsets are meant?")
    joins = group is not None and wanted.start != "stored"
    if joins and only:
        raise click.UsageError("the members of a group share its partitions out themselves: leave -p or --group out")
    if no_commit and not joins:
        raise click.UsageError("--no-commit needs --group; nothing is committed without one, nor with -o stored")
    seen = sys.stdout.isatty()
    null = "NULL" if show_null else ""
    formatter = (
        json_formatter(on_terminal=seen) if as_json else compile_format(template, null=null, on_terminal=seen)
    )  # fmt: skip

    from confluent_kafka import Consumer

    from ottla.cli import client
    from ottla.cli.reading_range import first_offsets
    from ottla.cli.sharing import Sharing, member_properties

    always = list(client.READING)
    if group is not None:
        always.append(("group.id", group))
    if joins:
        always += member_properties(wanted, commits=not no_commit)
    if exit_at_end or wanted.until_ms is not None:  # the end is known only when a fetch comes back empty
        always.append(("fetch.wait.max.ms", "20"))
    client.check_reachable(cluster)
    if joins:  # who just vanishes keeps the others waiting for its session to run out
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    consumer = client.make(Consumer, client.settings(cluster, (*always, *own)))
    names = list(dict.fromkeys(topics))
    share = Sharing(consumer, wanted, cluster.timeout_s, commits=not no_commit) if joins else None
    reader = _Reader(consumer, formatter, wanted.until_ms, count, exit_at_end, cluster.timeout_s, share)
    try:
        with client.told_in_a_line():
            partitions = [
                (topic, partition)
                for topic in names
                for partition in client.chosen_partitions(consumer, topic, only, cluster)
            ]
            if share is not None:
                share.join(names, dict(own))
            else:
                consumer.assign(first_offsets(consumer, partitions, wanted, cluster.timeout_s))
            if not quiet and sys.stdout.isatty():
                _say_where_it_waits(names, wanted, group if joins else None)
            reader.copy(partitions)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # the reader of our output has seen enough; Python must not complain when it flushes at exit
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        consumer.close()
    if not quiet and sys.stdout.isatty():
        note(f"{counted(reader.printed, 'record')}.")


def _say_where_it_waits(names: Sequence[str], wanted: Range, group: str | None) -> None:
    if group is not None:
        note(f"Reading {', '.join(names)} as a member of group {group}; Ctrl-C ends.")
    elif wanted.start == "end" and wanted.from_ms is None:
        note(f"Waiting for new records of {', '.join(names)}; Ctrl-C ends, --from-beginning shows the old ones.")


class _Reader:
    """Copies records to standard output until what ends it has happened in every partition."""

    def __init__(
        self,
        consumer: Any,
        formatter: Formatter,
        until_ms: int | None,
        count: int | None,
        exit_at_end: bool,
        timeout_s: float,
        share: Sharing | None,
    ) -> None:
        self.printed = 0
        self._consumer = consumer
        self._formatter = formatter
        self._until_ms = until_ms
        self._count = count
        self._exit_at_end = exit_at_end
        self._timeout_s = timeout_s
        self._share = share
        self._ends: dict[tuple[str, int], int] | None = None  # known once the time to end at is over
        self._read_to: dict[tuple[str, int], int] = {}
        self._at_end: set[tuple[str, int]] = set()

    def copy(self, partitions: Sequence[tuple[str, int]]) -> None:
        out = sys.stdout.buffer
        share = self._share
        while self._count is None or self.printed < self._count:
            self._find_ends(partitions)
            batch = BATCH if self._count is None else min(BATCH, self._count - self.printed)
            with put_off:
                messages = self._consumer.consume(batch, timeout=0.2)
            for message in messages:
                line = self._take(message)
                if line is not None:
                    out.write(line)
                    self.printed += 1
            out.flush()
            if share is not None:
                share.printed()
            if self._ended(partitions):
                return

    def _find_ends(self, partitions: Sequence[tuple[str, int]]) -> None:
        if self._until_ms is not None and self._ends is None and time.time() * 1000 >= self._until_ms:
            from ottla.cli.reading_range import end_offsets

            self._ends = end_offsets(self._consumer, partitions, self._until_ms, self._timeout_s)

    def _take(self, message: Any) -> bytes | None:
        partition = (message.topic(), message.partition())
        error = message.error()
        if error is None:
            self._read_to[partition] = message.offset() + 1
            if self._ends is not None and message.offset() >= self._ends[partition]:
                return None
            if self._share is not None:
                self._share.take(partition, message.offset() + 1)
            return self._formatter(message)
        from confluent_kafka import KafkaError, KafkaException

        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(partition)
            self._read_to[partition] = max(message.offset(), self._read_to.get(partition, 0))
            if self._share is not None and self._ends is None:  # past what nobody gets to see: marks of transactions
                self._share.reach(partition, message.offset())
        elif not error.retriable():
            raise KafkaException(error)
        return None

    def _ended(self, partitions: Sequence[tuple[str, int]]) -> bool:
        if self._share is not None:
            if self._share.mine is None:  # not a member yet
                return False
            partitions = self._share.mine
        return (self._exit_at_end or self._ends is not None) and all(
            (self._exit_at_end and part in self._at_end)
            or (self._ends is not None and self._read_to.get(part, -1) >= self._ends[part])
            for part in partitions
        )
