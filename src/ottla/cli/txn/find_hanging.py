"""`ottla txn find-hanging`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, is_terminal, note, output_option, print_rows
from ottla.cli.txn.spans import SpanType

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session

_LONGEST_MS: Final = 900_000
COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("PRODUCER-ID", "producer_id"),
    Column("EPOCH", "producer_epoch"),
    Column("COORDINATOR-EPOCH", "coordinator_epoch"),
    Column("START-OFFSET", "start_offset"),
    Column("QUIET-MS", "quiet_ms"),
)


@click.command("find-hanging")
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option(
    "--older-than", type=SpanType(), default=_LONGEST_MS, show_default="15m",
    help="Only those that have been quiet for so long: the longest transaction that brokers allow.",
)  # fmt: skip
@output_option
@cluster_options
def command(names: tuple[str, ...], older_than: int, output: str | None, cluster: Cluster) -> None:
    """Find transactions that are open on partitions and that no coordinator knows of, in all topics or in some.

    They hold up consumers of committed records for ever. `ottla txn abort --topic` ends them. Ends with 1 if there are.
    """
    from ottla.cli.admin import session

    rows = session.run(cluster, lambda there: _hanging(there, names, older_than))
    if rows or output is not None:
        print_rows(output, COLUMNS, rows)
    elif is_terminal():
        note("No transaction hangs.")
    if rows:
        sys.exit(1)


async def _hanging(there: Session, names: tuple[str, ...], older_than: int) -> list[dict[str, Any]]:
    from ottla.cli.admin.topics import topics
    from ottla.cli.admin.transactions import open_producers, owners

    now_ms = round(time.time() * 1000)
    producers = await open_producers(there, await topics(there, list(names) or None))
    old = [each for each in producers if now_ms - each.last_ms >= older_than]
    known = await owners(there, old)
    return [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "start_offset": each.start_offset,
            "quiet_ms": now_ms - each.last_ms,
        }
        for each in old
        if (owner := known.get(each.producer_id)) is None or not owner.is_open or each.partition not in owner.partitions
    ]
