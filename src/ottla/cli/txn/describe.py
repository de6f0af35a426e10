"""`ottla txn describe`."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, output_option, print_rows
from ottla.cli.txn.spans import moment

COLUMNS: Final = (
    Column("TRANSACTIONAL-ID", "transactional_id"),
    Column("COORDINATOR", "coordinator"),
    Column("PRODUCER-ID", "producer_id"),
    Column("EPOCH", "producer_epoch"),
    Column("STATE", "state"),
    Column("TIMEOUT-MS", "timeout_ms"),
    Column("SINCE", lambda row: "-" if row["start_ms"] is None else moment(row["start_ms"])),
    Column("DURATION-MS", "duration_ms"),
    Column("PARTITIONS", lambda row: ",".join(row["partitions"]) or "-"),
)


@click.command("describe")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@output_option
@cluster_options
def command(ids: tuple[str, ...], output: str | None, cluster: Cluster) -> None:
    """Show the producer of each transactional id, and what its transaction has touched if one is open."""
    from ottla.cli.admin import session, transactions

    found = session.run(cluster, lambda there: transactions.describe(there, dict.fromkeys(ids)))
    now_ms = round(time.time() * 1000)
    rows: list[dict[str, Any]] = [
        {
            "transactional_id": each.id,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "state": each.state,
            "timeout_ms": each.timeout_ms,
            "start_ms": each.start_ms if each.is_open else None,
            "duration_ms": now_ms - each.start_ms if each.is_open and each.start_ms is not None else None,
            "partitions": list(map(str, each.partitions)),
        }
        for each in found
    ]
    print_rows(output, COLUMNS, rows)
